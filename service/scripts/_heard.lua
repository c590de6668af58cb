-- Included after `meta`: how many bits the fold has heard, those of rounds that were decided elsewhere
-- among them. `silence`: '1' where it is a missing click, and so a bit.
local function heard(silence)
  local counts = redis.call('HMGET', meta, 'feedback', 'told', 'expired')
  local bits = tonumber(counts[1] or '0') + tonumber(counts[2] or '0')
  if silence == '1' then bits = bits + tonumber(counts[3] or '0') end
  return bits
end
