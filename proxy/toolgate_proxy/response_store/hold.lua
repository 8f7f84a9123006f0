-- Takes or prolongs a lease. KEYS: lease. ARGV: holder, seconds in ms.
-- Returns 0 if another holder has it.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
