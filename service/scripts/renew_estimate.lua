#!lua
-- Say that a claimed estimate is still being worked on, and how far it is.
-- KEYS: estimate   ARGV: token, lease (ms), progress (0 to 1)
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'lost'} end
local clock = redis.call('TIME')
local lease = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[2])
redis.call('HSET', KEYS[1], 'lease', string.format('%.0f', lease), 'progress', ARGV[3])
return {'ok'}
