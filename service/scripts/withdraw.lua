#!lua flags=allow-oom
-- Take back decisions that nobody was told of, where their windows have not closed. It frees
-- memory, and is asked for most often where a batch was refused above maxmemory.
-- KEYS: meta, pending, due   ARGV: uid, nonce, ...
if redis.call('HGET', KEYS[1], 'uid') ~= ARGV[1] then return {'gone'} end
local count = 0
for i = 2, #ARGV do
  if redis.call('HDEL', KEYS[2], ARGV[i]) == 1 then
    redis.call('ZREM', KEYS[3], ARGV[i])
    count = count + 1
  end
end
redis.call('HINCRBY', KEYS[1], 'decisions', -count)
return {'ok', count}
