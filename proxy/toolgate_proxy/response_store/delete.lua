-- Deletes one response. KEYS: record, events, index, total. ARGV: digest of the ID.
-- Returns whether there was one. It is deleted also if another entry has a wrong type.
local function size(key)
    local bytes = redis.pcall('STRLEN', key)
    return type(bytes) == 'number' and bytes or 0
end

local bytes = size(KEYS[1]) + size(KEYS[2])
if redis.call('DEL', KEYS[1]) == 0 then
    return 0
end
redis.call('DEL', KEYS[2])
if redis.pcall('ZREM', KEYS[3], ARGV[1] .. ':' .. bytes) == 1 then
    redis.pcall('DECRBY', KEYS[4], bytes)
end
return 1
