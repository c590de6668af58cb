#!lua
-- Create a model, or begin to import one, unless it is there; what a broken import left goes.
-- KEYS: every part of the model, meta first
-- ARGV: lease (ms; how long an import may bring nothing, 0 for none), what is left of a lease while
-- one is under way (ms), field, value, ...
local meta = KEYS[1]
if redis.call('HEXISTS', meta, 'uid') == 1 then return {'there'} end
if redis.call('HEXISTS', meta, 'importing') == 1 and redis.call('PTTL', meta) > tonumber(ARGV[2]) then
  return {'busy'}
end
redis.call('UNLINK', unpack(KEYS))
for i = 3, #ARGV, 2 do
  redis.call('HSET', meta, ARGV[i], ARGV[i + 1])
end
local clock = redis.call('TIME')
redis.call('HSET', meta, 'created_at_ms', string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000)))
if ARGV[1] ~= '0' then redis.call('PEXPIRE', meta, ARGV[1]) end
return {'ok'}
