#!lua
-- Ask for an estimate of the noise rates now; one that is being made already is the answer.
-- KEYS: meta, estimate   ARGV: uid
if redis.call('HGET', KEYS[1], 'uid') ~= ARGV[1] then return {'gone'} end
local was = redis.call('HMGET', KEYS[2], 'done', 'token')
if not was[2] then redis.call('HSET', KEYS[2], 'asked', '1') end
return {'ok', tostring(tonumber(was[1] or '0') + 1)}
