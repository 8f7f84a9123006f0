-- Stores one response of an owner. At the owner's quota, the responses that were used least recently
-- are dropped.
-- KEYS: record, index, total.
-- ARGV: record, lifetime in ms, maximum number, maximum bytes, digest of the ID, beginning of the
--       names of records.
-- Returns: 1, or 0 if there is a response with that ID; number of responses dropped.
-- An error names an entry of a wrong type. Nothing is stored then.
-- index: sorted set, `<digest>:<bytes>` → time of last use in ms. total: bytes of all of them.
local record, index, total = KEYS[1], KEYS[2], KEYS[3]
local life, most, bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local digest, prefix = ARGV[5], ARGV[6]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local size = #ARGV[1]

-- Before the first write: what a script has written stays if it fails later.
for key, wanted in pairs({ [index] = 'zset', [total] = 'string' }) do
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= wanted then
        return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', but must be a ' .. wanted)
    end
end
if redis.call('EXISTS', record) == 1 then
    return { 0, 0 }
end
local used = tonumber(redis.call('GET', total) or 0) or 0
-- First, so that Redis without memory refuses it before anything is dropped.
redis.call('SET', record, ARGV[1], 'PX', life)

local count = redis.call('ZCARD', index)
local function drop(member)
    local name, length = string.match(member, '^(%x+):(%d+)$')
    redis.call('ZREM', index, member)
    count = count - 1
    if name then
        used = math.max(0, used - tonumber(length))
        if name ~= digest then -- otherwise the entry of an earlier record with the same ID
            redis.call('DEL', prefix .. name)
        end
    end
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now - life, 'LIMIT', 0, 100)) do
    drop(member) -- expired
end
local dropped = 0
while count > 0 and (count + 1 > most or used + size > bytes) do
    drop(redis.call('ZRANGE', index, 0, 0)[1])
    dropped = dropped + 1
end

redis.call('ZADD', index, now, digest .. ':' .. size)
redis.call('SET', total, string.format('%d', used + size), 'PX', life)
redis.call('PEXPIRE', index, life)
return { 1, dropped }
