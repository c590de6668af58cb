#!lua
-- End a claimed estimate: its result into the history and, if it is trusted, one rates event
-- into the log, in one step; so each estimate becomes at most one event, whoever else tried.
-- KEYS: meta, log, estimate, estimates   ARGV: uid, token, nonce, record ('' if not trusted), result, keep
local meta, log, estimate, estimates = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
if redis.call('HGET', estimate, 'token') ~= ARGV[2] then return {'stale'} end
--include _append
if ARGV[4] ~= '' then
  append('r', ARGV[3], '-', ARGV[4])
  redis.call('HSET', meta, 'rates', ARGV[4])
  save_head()
end
redis.call('LPUSH', estimates, ARGV[5])
redis.call('LTRIM', estimates, 0, tonumber(ARGV[6]) - 1)
local upto = redis.call('HGET', estimate, 'upto')
redis.call('HINCRBY', estimate, 'done', 1)
redis.call('HSET', estimate, 'at', upto, 'asked', '0', 'tries', '0')
redis.call('HDEL', estimate, 'token', 'lease', 'progress', 'started', 'upto')
return {'ok', whole(seq)}
