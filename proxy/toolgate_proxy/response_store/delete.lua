-- Deletes one response. KEYS: record, index, total. ARGV: digest of the ID.
-- Returns whether there was one. It is deleted also if another entry has a wrong type.
local bytes = redis.pcall('STRLEN', KEYS[1])
bytes = type(bytes) == 'number' and bytes or 0
if redis.call('DEL', KEYS[1]) == 0 then
    return 0
end
redis.call('DEL', KEYS[1] .. ':events', KEYS[1] .. ':lease')
if redis.pcall('ZREM', KEYS[2], ARGV[1] .. ':' .. bytes) == 1 then
    redis.pcall('DECRBY', KEYS[3], bytes)
end
return 1
