-- Lets one request in under all limits of its key, or counts nothing of it.
-- KEYS: requests, tokens, leases, days. The first two are hashes: slice of the window → count.
-- ARGV: window ms, slices, rpm, tpm, parallel, tokens a day (-1 for no limit), tokens to set aside,
--       request id, lease ms
-- Returns: limit that refused (0 none, 1 requests, 2 tokens, 3 parallel, 4 day), ms to wait,
--          requests, ms to reset, tokens, ms to reset, in flight, tokens today, slice, day
local window, slices = tonumber(ARGV[1]), tonumber(ARGV[2])
local rpm, tpm, parallel, daily = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local tokens, lease = tonumber(ARGV[7]), tonumber(ARGV[9])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local width = window / slices
local slice, day = math.floor(now / width), math.floor(now / 86400000)

-- Slices that still count, oldest first, and their sum; those that don't are dropped.
local function read(key)
    local held, counts, sum = redis.call('HGETALL', key), {}, 0
    for at = 1, #held, 2 do
        local began, count = tonumber(held[at]), tonumber(held[at + 1])
        if began < slice - slices then
            redis.call('HDEL', key, held[at])
        elseif count > 0 then
            counts[#counts + 1] = { began, count }
            sum = sum + count
        end
    end
    table.sort(counts, function(a, b) return a[1] < b[1] end)
    return counts, sum
end

local function leaves(began)
    return (began + 1) * width + window - now
end

-- Ms until `wanted` more fit under the limit.
local function wait(counts, sum, limit, wanted)
    if wanted > limit then
        return -1
    end
    for _, each in ipairs(counts) do
        sum = sum - each[2]
        if sum + wanted <= limit then
            return leaves(each[1])
        end
    end
    return 0
end

local asked, asked_sum = read(KEYS[1])
local used, used_sum = read(KEYS[2])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local in_flight = redis.call('ZCARD', KEYS[3])
local today = tonumber(redis.call('HGET', KEYS[4], day) or 0)

local refused, ms = 0, 0
if rpm >= 0 and asked_sum + 1 > rpm then
    refused, ms = 1, wait(asked, asked_sum, rpm, 1)
elseif tpm >= 0 and used_sum + tokens > tpm then
    refused, ms = 2, wait(used, used_sum, tpm, tokens)
elseif parallel >= 0 and in_flight + 1 > parallel then
    refused = 3
elseif daily >= 0 and today + tokens > daily then
    refused, ms = 4, tokens > daily and -1 or (day + 1) * 86400000 - now
end

if refused == 0 then
    local keep = math.ceil((window + 2 * width) / 1000) * 1000
    redis.call('HINCRBY', KEYS[1], slice, 1)
    redis.call('PEXPIRE', KEYS[1], keep)
    redis.call('HINCRBY', KEYS[2], slice, tokens)
    redis.call('PEXPIRE', KEYS[2], keep)
    asked[#asked + 1], asked_sum = { slice, 1 }, asked_sum + 1
    if tokens > 0 then
        used[#used + 1], used_sum = { slice, tokens }, used_sum + tokens
    end
    if parallel >= 0 then
        redis.call('ZADD', KEYS[3], now + lease, ARGV[8])
        redis.call('PEXPIRE', KEYS[3], lease)
        in_flight = in_flight + 1
    end
    today = redis.call('HINCRBY', KEYS[4], day, tokens)
    redis.call('HDEL', KEYS[4], day - 2)
    redis.call('PEXPIRE', KEYS[4], 2 * 86400000)
end
local function reset(counts)
    return #counts > 0 and math.max(0, leaves(counts[#counts][1])) or 0
end
return {
    refused, math.ceil(ms), asked_sum, math.ceil(reset(asked)), used_sum, math.ceil(reset(used)),
    in_flight, today, slice, day,
}
