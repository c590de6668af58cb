#!lua flags=allow-oom
-- Store parts of a state that a snapshot will name: that frees more, so above maxmemory, too.
-- KEYS: meta, parts
-- ARGV: field, value (what the meta data must say), lease (ms; of an import, else 0),
--       n x (name, part)
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'gone'} end
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
return {'ok'}
