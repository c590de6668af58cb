#!lua
-- Append one administrative event if a field of meta still says what the caller read.
-- KEYS: meta, log   ARGV: uid, kind, nonce, field, old, new, record
local meta, log = KEYS[1], KEYS[2]
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
if (redis.call('HGET', meta, ARGV[4]) or '') ~= ARGV[5] then return {'stale'} end
--include _append
append(ARGV[2], ARGV[3], '-', ARGV[7])
redis.call('HSET', meta, ARGV[4], ARGV[6])
save_head()
return {'ok', whole(seq)}
