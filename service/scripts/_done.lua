-- Tombstones: what became of each decision, in buckets by issue time. A bucket is as wide as
-- the decision window at least, and lives until one width after the last deadline in it.
-- The includer has set: done (key prefix, same hash tag), width (ms), now.
-- Tombstones are kept here until `write_tombstones`: one write a bucket, whatever the batch.
local HEAD_BYTES = 36
local graves = {}

local function bucket_of(issued)
  return math.floor(issued / width)
end

local function bucket_key(bucket)
  return done .. ':' .. string.format('%.0f', bucket)
end

local function bury(issued, nonce, outcome, at_seq, record)
  local bucket = bucket_of(issued)
  local tombstone = outcome .. struct.pack('>I8', at_seq) .. string.sub(record, 1, HEAD_BYTES)
  local grave = graves[bucket] or {}
  graves[bucket] = grave
  grave[#grave + 1] = nonce
  grave[#grave + 1] = tombstone
  grave[nonce] = tombstone
end

-- What was buried in this call.
local function just_buried(issued, nonce)
  local grave = graves[bucket_of(issued)]
  return grave and grave[nonce]
end

local function write_tombstones()
  for bucket, grave in pairs(graves) do
    local key = bucket_key(bucket)
    redis.call('HSET', key, unpack(grave))
    -- Two older ones are looked at. Where decisions keep coming, the third goes at once, freed
    -- aside; its expiry could hold up a Redis that frees what expires by itself, for a second a
    -- million.
    redis.call('PEXPIREAT', key, string.format('%.0f', (bucket + 4) * width))
    redis.call('UNLINK', bucket_key(bucket - 3))
  end
end

local function tombstone_of(issued, nonce)
  return just_buried(issued, nonce) or redis.call('HGET', bucket_key(bucket_of(issued)), nonce)
end

-- The tombstone of something issued within the last two widths, whenever that was. One width ahead
-- is looked at, too: the clock goes back where a replica whose clock lags becomes the primary.
local function recent_tombstone(nonce)
  for age = -1, 2 do
    local past = tombstone_of(now - age * width, nonce)
    if past then return past end
  end
  return false
end
