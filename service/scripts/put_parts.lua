#!lua flags=allow-oom
-- Store parts of a state that a snapshot will name: it frees more, so above maxmemory too.
-- KEYS: meta, parts   ARGV: field, value (what the meta data must say), n x (name, part)
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'gone'} end
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
return {'ok'}
