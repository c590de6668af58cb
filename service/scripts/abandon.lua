#!lua
-- Remove what a failed import has left.
-- KEYS: meta, pending, due, log, snap, snap1   ARGV: token
if redis.call('HGET', KEYS[1], 'importing') ~= ARGV[1] then return {'gone'} end
redis.call('DEL', unpack(KEYS))
return {'ok'}
