# Ends a stack's children and removes its directory when the stack's process is gone. Standard input
# is a pipe from that process, which closes when it ends or is killed. The folder `groups` has a file
# for each process group that still runs. They get SIGTERM, and SIGKILL 20 seconds later: vLLM waits
# for its workers when it ends.
#
# sh clean_up.sh DIRECTORY
trap '' INT TERM HUP
cat > /dev/null

send() { # a signal to all groups; fails if none of them has processes
    status=1
    for group in "$directory"/groups/*; do
        kill -s "$1" -- "-${group##*/}" 2> /dev/null && status=0
    done
    return $status
}

directory=$1
send TERM
tenths=0
while [ $tenths -lt 200 ] && send 0; do
    sleep 0.1
    tenths=$((tenths + 1))
done
send KILL
rm -rf "$directory"
