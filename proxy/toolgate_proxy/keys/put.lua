-- Writes one key, unless it was changed since it was read.
-- KEYS: records, changes, version, aliases, epoch, mark
-- ARGV: id, the record as it was read ('' for a new key), the new record, alias,
--       '1' to reserve the alias, '0' to release it, a new epoch, the new version,
--       the SHA-1 of the mark as it was read ('' for none), the new mark
-- Returns: 'ok'; 'changed' if the record was changed since; 'again' if another key was;
--          'alias' if another key has the alias.
-- An error names an entry of a wrong type. Nothing is written then.
for at, wanted in pairs({ 'hash', 'zset', 'string', 'hash', 'string', 'string' }) do
    local found = redis.call('TYPE', KEYS[at]).ok
    if found ~= 'none' and found ~= wanted then
        return redis.error_reply('WRONGTYPE ' .. KEYS[at] .. ' is a ' .. found .. ', but must be a ' .. wanted)
    end
end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then
    return 'changed'
end
local mark = redis.call('GET', KEYS[6])
if (mark and redis.sha1hex(mark) or '') ~= ARGV[8] then
    return 'again'
end
local holder = redis.call('HGET', KEYS[4], ARGV[4])
if ARGV[5] == '1' then
    if holder and holder ~= ARGV[1] then
        return 'alias'
    end
    redis.call('HSET', KEYS[4], ARGV[4], ARGV[1])
elseif holder == ARGV[1] then
    redis.call('HDEL', KEYS[4], ARGV[4])
end
redis.call('SET', KEYS[5], ARGV[6], 'NX')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[7], ARGV[1])
redis.call('SET', KEYS[3], ARGV[7])
redis.call('SET', KEYS[6], ARGV[9])
return 'ok'
