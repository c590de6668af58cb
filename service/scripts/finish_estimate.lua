#!lua
-- End an estimate: its result into the history and, if it is trusted, one rates event into the
-- log, in one step; so each estimate becomes at most one event, whoever else tried.
-- KEYS: meta, log, estimate, estimates
-- ARGV: uid, token ('' for one that is only asked for), nonce, record ('' if not trusted), result,
--       keep, outcome (the field that counts it), seconds ('' where nothing was made), silence
--       ('1': it is a bit)
local meta, log, estimate, estimates = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
local was = redis.call('HMGET', estimate, 'token', 'asked', 'upto', 'upto_seq')
if (was[1] or '') ~= ARGV[2] then return {'stale'} end
if ARGV[2] == '' and was[2] ~= '1' then return {'stale'} end
--include _append
--include _heard
if ARGV[4] ~= '' then
  append('r', ARGV[3], '-', ARGV[4])
  redis.call('HSET', meta, 'rates', ARGV[4])
  save_head()
end
redis.call('LPUSH', estimates, ARGV[5])
redis.call('LTRIM', estimates, 0, tonumber(ARGV[6]) - 1)
redis.call('HINCRBY', estimate, 'done', 1)
redis.call('HINCRBY', estimate, ARGV[7], 1)
redis.call('HSET', estimate, 'at', was[3] or whole(heard(ARGV[9])), 'at_seq', was[4] or head[2],
  'asked', '0', 'tries', '0')
if ARGV[8] ~= '' then redis.call('HSET', estimate, 'took', ARGV[8]) end
redis.call('HDEL', estimate, 'token', 'lease', 'progress', 'started', 'upto', 'upto_seq')
return {'ok', whole(seq)}
