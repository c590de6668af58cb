#!lua flags=allow-oom
-- Count how often a worker found that events of the log were lost.
-- KEYS: meta   ARGV: uid, times
if redis.call('HGET', KEYS[1], 'uid') ~= ARGV[1] then return {'gone'} end
redis.call('HINCRBY', KEYS[1], 'rewinds', ARGV[2])
return {'ok'}
