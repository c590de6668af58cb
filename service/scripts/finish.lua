#!lua
-- Make an imported model visible, with a snapshot of the state that its events lead to. From now on
-- it stays.
-- KEYS: meta, log, parts, snap   ARGV: token, uid, seq, chain, digest, names, field of meta, value, ...
local meta, snap = KEYS[1], KEYS[4]
if redis.call('HGET', meta, 'importing') ~= ARGV[1] then return {'gone'} end
if tonumber(ARGV[3]) > 0 then
  redis.call('HSET', snap, 'seq', ARGV[3], 'chain', ARGV[4], 'digest', ARGV[5], 'parts', ARGV[6])
end
redis.call('HSET', meta, 'uid', ARGV[2], 'seq', ARGV[3], 'chain', ARGV[4])
for i = 7, #ARGV, 2 do
  redis.call('HSET', meta, ARGV[i], ARGV[i + 1])
end
redis.call('HDEL', meta, 'importing')
for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
return {'ok'}
