#!lua
-- Make an imported model visible, with a snapshot of the state that its events lead to.
-- KEYS: meta, snap   ARGV: token, uid, labels, seq, chain, digest, names
local meta, snap = KEYS[1], KEYS[2]
if redis.call('HGET', meta, 'importing') ~= ARGV[1] then return {'gone'} end
if tonumber(ARGV[4]) > 0 then
  redis.call('HSET', snap, 'seq', ARGV[4], 'chain', ARGV[5], 'digest', ARGV[6], 'parts', ARGV[7])
end
redis.call('HSET', meta, 'uid', ARGV[2], 'labels', ARGV[3], 'seq', ARGV[4], 'chain', ARGV[5])
redis.call('HDEL', meta, 'importing')
return {'ok'}
