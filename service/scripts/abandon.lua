#!lua flags=allow-oom
-- Remove what a failed import has left. It frees memory, and an import fails most often above
-- maxmemory.
-- KEYS: every part of the model, meta first   ARGV: token
if redis.call('HGET', KEYS[1], 'importing') ~= ARGV[1] then return {'gone'} end
redis.call('UNLINK', unpack(KEYS))
return {'ok'}
