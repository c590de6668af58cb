-- Tombstones: what became of each decision, in buckets by issue time. A bucket is as wide as
-- the decision window at least, and lives until one width after the last deadline in it.
-- The includer has set: done (key prefix, same hash tag), width (ms), now, stamp.
local HEAD_BYTES = 36

local function bucket_of(issued)
  return math.floor(issued / width)
end

local function bucket_key(bucket)
  return done .. ':' .. string.format('%.0f', bucket)
end

local function bury(issued, nonce, outcome, at_seq, record)
  local bucket = bucket_of(issued)
  local key = bucket_key(bucket)
  redis.call('HSET', key, nonce, outcome .. struct.pack('>I8', at_seq) .. string.sub(record, 1, HEAD_BYTES))
  redis.call('PEXPIREAT', key, string.format('%.0f', (bucket + 3) * width))
end

-- The tombstone of something issued within the last two widths, whenever that was.
local function recent_tombstone(nonce)
  local bucket = bucket_of(now)
  for b = bucket, bucket - 2, -1 do
    local past = redis.call('HGET', bucket_key(b), nonce)
    if past then return past end
  end
  return false
end
