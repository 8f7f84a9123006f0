-- Writes one key, unless a key was written since the mark was read.
-- KEYS: records, mark
-- ARGV: id, the new record, the SHA-1 of the mark as it was read ('' for none), the new mark
-- Returns whether it was written.
local mark = redis.call('GET', KEYS[2])
if (mark and redis.sha1hex(mark) or '') ~= ARGV[3] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[4])
return 1
