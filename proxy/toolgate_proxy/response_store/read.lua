-- Reads a response and those that it continues, the newest first, and marks them as used.
-- KEYS: index. ARGV: beginning of the names of records, digest of the ID, maximum number, maximum
-- bytes, length of a digest.
-- A record begins with the digest of the previous response, or with zeros.
-- Returns the records, at most so many; those over the maximum of bytes end with an empty one.
local index, prefix, digest = KEYS[1], ARGV[1], ARGV[2]
local most, bytes, length = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local none = string.rep('0', length)
local found, read = {}, 0

while digest ~= none and #found < most do
    local record = redis.call('GET', prefix .. digest)
    if not record then
        break
    end
    read = read + #record
    if read > bytes then
        found[#found + 1] = ''
        break
    end
    found[#found + 1] = record
    redis.pcall('ZADD', index, 'XX', now, digest .. ':' .. #record) -- refused without memory
    digest = string.sub(record, 1, length)
end
return found
