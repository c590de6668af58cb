#!lua
-- Append entries, as exported, to a model whose import has begun under this token. Both keys end
-- at the same moment if nothing more comes.
-- KEYS: meta, log   ARGV: token, lease (ms), n, n x (seq, chain, body)
if redis.call('HGET', KEYS[1], 'importing') ~= ARGV[1] then return {'gone'} end
for i = 1, tonumber(ARGV[3]) do
  local at = 4 + (i - 1) * 3
  redis.call('XADD', KEYS[2], ARGV[at] .. '-0', 'b', ARGV[at + 2], 'h', ARGV[at + 1])
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[2]) end
return {'ok'}
