#!lua
-- Ask for an estimate of the noise rates now; if one is being made already, answer its number.
-- KEYS: meta, estimate   ARGV: uid
if redis.call('HGET', KEYS[1], 'uid') ~= ARGV[1] then return {'gone'} end
redis.call('HSET', KEYS[2], 'asked', '1')
return {'ok', tostring(tonumber(redis.call('HGET', KEYS[2], 'done') or '0') + 1)}
