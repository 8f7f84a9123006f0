-- Deletes one response. KEYS: record, events, index, total. ARGV: digest of the ID.
-- Returns whether there was one.
local size = redis.call('STRLEN', KEYS[1]) + redis.call('STRLEN', KEYS[2])
if redis.call('DEL', KEYS[1]) == 0 then
    return 0
end
redis.call('DEL', KEYS[2])
if redis.call('ZREM', KEYS[3], ARGV[1] .. ':' .. size) == 1 then
    redis.call('DECRBY', KEYS[4], size)
end
return 1
