# The stack of ./dev up, which sources this file: private stores and instances of the service, on this machine, until
# ./dev down. deploy/ha/stack.sh has stores that fail over.
#
# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here, deploy/ha/stack.sh and the commands of ./dev read

readonly STATE=.dev # of the running stack: env, pids, logs, Redis's data, and a link to PostgreSQL's

# ---- processes ----
# A process is remembered in $STATE/pids as "name pid start-time": with its start time a pid is never
# mistaken for that of a later process.

# start NAME COMMAND...: in the background, with its output in $STATE/NAME.log
start() {
    # A session of its own keeps it out of reach of Ctrl-C, so that `down` can end it in order.
    setsid "${@:2}" </dev/null &>"$STATE/$1.log" &
    echo "$1 $! $(start_time $!)" >>"$STATE/pids"
}

start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    read -ra stat <<<"${stat##*) }" # the fields after the name, which may hold spaces
    [[ ${stat[0]} == Z ]] || echo "${stat[19]}"
}

# alive PID START_TIME
alive() { [[ -n $2 && $(start_time "$1") == "$2" ]]; }

# wait_for NAME CONDITION...: until the condition holds; shows the end of the log if it does not
wait_for() {
    local pid since deadline=$((SECONDS + 30))
    read -r _ pid since < <(grep "^$1 " "$STATE/pids")
    until "${@:2}" &>/dev/null; do
        if ((SECONDS >= deadline)) || ! alive "$pid" "$since"; then
            tail -n 30 "$STATE/$1.log" >&2
            die "$1 did not get ready; the end of its log is above; ./dev down clears up"
        fi
        sleep 0.05
    done
}

# stop NAME PID START_TIME
stop() {
    local signal=TERM deadline=$((SECONDS + 20))
    [[ $1 != postgres* ]] || signal=INT # TERM would wait for its clients to leave
    alive "$2" "$3" || return 0
    kill -s "$signal" "$2" || true
    while alive "$2" "$3"; do
        ((SECONDS < deadline)) || kill -s KILL "$2" || true
        sleep 0.05
    done
}

# A port that no process listens on, outside the range from which clients' ports are taken.
free_port() {
    local port
    while port=$((15000 + RANDOM % 16000)); (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}

random_secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# ---- stack ----

cmd_up() {
    local instances="" first_port="" ha="" cluster="" shards=1
    while (($# > 0)); do
        case $1 in
        --ha) ha=1 ;;
        --cluster)
            cluster=${2-}
            [[ $cluster =~ ^[3-9]$ ]] || die "--cluster takes a number from 3 to 9"
            shift
            ;;
        --instances)
            instances=${2-}
            [[ $instances =~ ^[1-9][0-9]?$ ]] || die "--instances takes a number from 1 to 99"
            shift
            ;;
        --port)
            first_port=${2-}
            [[ $first_port =~ ^[1-9][0-9]{3,4}$ && $first_port -lt 65536 ]] || die "--port takes a number from 1000 to 65535"
            shift
            ;;
        --shards)
            shards=${2-}
            [[ $shards =~ ^([1-9]|1[0-6])$ ]] || die "--shards takes a number from 1 to 16"
            shift
            ;;
        *) die "up knows --ha, --cluster N, --shards N, --instances N and --port P, not $1" ;;
        esac
        shift
    done
    [[ -z $ha || -z $cluster ]] || die "--ha and --cluster are two ways to have more than one Redis"
    if [[ -e $STATE/env ]] && all_alive; then
        say "already up; ./dev down ends it"
        cat "$STATE/env"
        return
    fi
    if [[ $ha$cluster && -e $STATE/run ]]; then
        restart_dead
        return
    fi
    [[ -z $ha || $shards == 1 ]] || die "up takes --ha or --shards N"
    [[ -z $ha ]] || cmd_setup ha
    refuse_second_stack
    [[ -x build/seckill ]] || die "there is no build/seckill; ./dev build makes it"
    HA=$ha CLUSTER=$cluster SHARDS=$shards FIRST_PORT=$first_port start_stack "${instances:-$((1 + ha))}"
    [[ -n $ha$cluster || $shards -gt 1 ]] || make_segments
    show_voucher
    [[ -z $ha ]] || show_ha
    [[ -z $cluster ]] || show_cluster "$cluster"
}

all_alive() {
    local pid since
    while read -r _ pid since; do
        alive "$pid" "$since" || return
    done <"$STATE/pids"
}

# The password is in the environment, because all users of the machine can read a command line.
make_segments() {
    local password=${DATABASE_URL#*:*:}
    PGPASSWORD=${password%%@*} psql -Xq -v segments=64 -f deploy/segments.sql "${DATABASE_URL/:[^\/]*@/@}"
}

# Before a build, too: rather now than after some minutes.
refuse_second_stack() {
    [[ ! -e $STATE ]] || die "there is a stack, or what remains of one; ./dev down clears it up"
}

# start_stack INSTANCES. FOR_BENCH: one Redis also beside a cluster.
start_stack() {
    local cluster_url=""
    unset SECKILL_URL SECKILL_URLS # the caller's; they are no settings, so the service must not inherit ours either
    mkdir -m 700 "$STATE" # secrets are in it
    if [[ ${HA-} ]]; then
        start_ha_stores
    else
        [[ -z ${CLUSTER-} ]] || start_cluster "$CLUSTER"
        cluster_url=${CLUSTER:+$REDIS_URL}
        [[ ${CLUSTER-} && -z ${FOR_BENCH-} ]] || start_redis
        start_postgres
    fi
    start_service "$1"
    cat >"$STATE/env" <<END
SECKILL_URL=$SECKILL_URL
SECKILL_URLS='$SECKILL_URLS'
SECKILL_ADMIN_TOKEN=$SECKILL_ADMIN_TOKEN
$(database_setting)
DATABASE_URL='$DATABASE_URL'
REDIS_URL=$REDIS_URL
END
    [[ -z ${HA-} ]] || cat >>"$STATE/env" <<END
SECKILL_REDIS_URL=$SECKILL_REDIS_URL
SECKILL_REDIS_CA='$SECKILL_REDIS_CA'
SECKILL_SENTINEL_PASSWORD=$SECKILL_SENTINEL_PASSWORD
END
    [[ -z $cluster_url ]] || printf '%s\n' "CLUSTER_URL=$cluster_url" "SECKILL_REDIS_URL=$SECKILL_REDIS_URL" >>"$STATE/env"
}

# The service has the rights of deploy/redis.acl, and the user `judge`, whom loadtest/ is, all. FOR_BENCH: Redis's own
# user `default` has all, without a password: builds of other commits and other servers know no users.
start_redis() {
    local port judge="" password service_password
    port=$(free_port) password=$(random_secret) service_password=$(random_secret)
    say "starting Redis on port $port"
    mkdir "$STATE/redis"
    sed -f - deploy/redis.acl <<<"s/SECKILL_REDIS_PASSWORD/$service_password/" >"$STATE/redis.acl"
    if [[ ${FOR_BENCH-} ]]; then
        echo "user default on nopass ~* &* +@all" >>"$STATE/redis.acl"
        sed -i '/^user default off/d' "$STATE/redis.acl"
    else
        echo "user judge on >$password ~* &* +@all" >>"$STATE/redis.acl"
        judge=judge:$password@
    fi
    SECKILL_REDIS_URL=redis://seckill:$service_password@127.0.0.1:$port
    REDIS_URL=redis://${judge}127.0.0.1:$port
    start redis redis-server deploy/redis.conf --bind 127.0.0.1 --port "$port" --dir "$STATE/redis" \
        --auto-aof-rewrite-percentage 0 --aclfile "$PWD/$STATE/redis.acl"
    wait_for redis redis_answers
}

# Without a password: it is also ready if it demands one.
redis_answers() { [[ $(redis-cli -p "$port" ping) =~ ^(PONG|NOAUTH) ]]; }

# SHARDS: so many servers; DATABASE_URL is the first one's.
start_postgres() {
    local folder port bin as number more urls=() owners=()
    postgres_folder
    for ((number = ${SHARDS:-1} - 1; number >= 0; number--)); do
        more=$( ((number == 0)) || echo "-$number")
        port=$(free_port)
        say "starting PostgreSQL on port $port"
        quietly "${as[@]}" "$bin/initdb" -D "$folder/data$more" --locale C.UTF-8 --encoding UTF8 \
            --auth-local peer --auth-host scram-sha-256
        # Orders stay in memory, which is taken as they come.
        { cat deploy/postgresql.conf && echo 'shared_buffers = 512MB'; } |
            "${as[@]}" tee -a "$folder/data$more/postgresql.conf" >/dev/null
        start "postgres$more" "${as[@]}" "$bin/postgres" -D "$folder/data$more" -k "$folder" -h 127.0.0.1 -p "$port"
        wait_for "postgres$more" "${as[@]}" pg_isready -q -h "$folder" -p "$port" -d postgres
        make_database "127.0.0.1:$port" "" "${as[@]}" psql -X -h "$folder" -p "$port"
        urls=("$SECKILL_DATABASE_URL" "${urls[@]}") owners=("$DATABASE_URL" "${owners[@]}")
    done
    ((${#urls[@]} > 1)) || return 0
    printf '%s\n' "${urls[@]}" >"$STATE/shards"
    printf '%s\n' "${owners[@]}" >"$STATE/owners"
    unset SECKILL_DATABASE_URL
    SECKILL_SHARDS=$STATE/owners quietly build/seckill --migrate
    export SECKILL_SHARDS=$PWD/$STATE/shards
}

database_setting() {
    if [[ ${SECKILL_SHARDS-} ]]; then
        printf "%s='%s'\n" SECKILL_SHARDS "$SECKILL_SHARDS" SHARD_OWNERS "$PWD/$STATE/owners"
    else
        echo "SECKILL_DATABASE_URL='$SECKILL_DATABASE_URL'"
    fi
}

# Sets folder, bin and as: where PostgreSQL is, its programs, and the words before a command that make it run there as a
# user whom PostgreSQL accepts. Under /var/tmp, because it refuses to run as root, and that user may not be able to enter
# the checkout.
postgres_folder() {
    folder=$(mktemp -d /var/tmp/seckill.XXXXXX)
    ln -s "$folder" "$STATE/postgres"
    as=(env -C "$folder")
    if ((EUID == 0)); then
        chown postgres: "$folder"
        as+=(setpriv --reuid postgres --regid postgres --clear-groups)
    fi
    bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
}

# make_database HOSTS SETTINGS PSQL...: roles and tables, by a superuser's psql; and the addresses of both logins
make_database() {
    local owner_password service_password psql=("${@:3}")
    owner_password=$(random_secret) service_password=$(random_secret)
    DATABASE_URL=postgresql://seckill_owner:$owner_password@$1/seckill$2
    SECKILL_DATABASE_URL=postgresql://seckill:$service_password@$1/seckill$2
    quietly "${psql[@]}" postgres -c 'create database seckill'
    SECKILL_OWNER_PASSWORD=$owner_password SECKILL_DB_PASSWORD=$service_password \
        "${psql[@]}" -q seckill < <(cat deploy/owner.sql deploy/login.sql)
    # loadtest/ makes databases, and loadtest/settings changes these.
    quietly "${psql[@]}" seckill -c 'alter role seckill_owner createdb' \
        -c 'grant pg_checkpoint, pg_monitor to seckill_owner' \
        -c 'grant execute on function pg_reload_conf(), pg_switch_wal() to seckill_owner' \
        -c 'grant alter system on parameter fsync, synchronous_commit, min_wal_size, max_wal_size, wal_recycle
            to seckill_owner'
    SECKILL_DATABASE_URL=$DATABASE_URL quietly build/seckill --migrate
}

# start_service INSTANCES. FIRST_PORT: of the first; the others have the next ones.
start_service() {
    local number port urls=()
    SECKILL_ADMIN_TOKEN=$(random_secret)
    SECKILL_TICKET_SECRET=$(random_secret)
    [[ ${SECKILL_SHARDS-} ]] || export SECKILL_DATABASE_URL
    export SECKILL_ADMIN_TOKEN SECKILL_REDIS_URL SECKILL_TICKET_SECRET
    [[ -z ${HA-} ]] || export SECKILL_REDIS_CA SECKILL_SENTINEL_PASSWORD
    for ((number = 1; number <= $1; number++)); do
        port=${FIRST_PORT:+$((FIRST_PORT + number - 1))}
        port=${port:-$(free_port)}
        say "starting seckill on port $port"
        urls+=("http://127.0.0.1:$port")
        SECKILL_DEMO=on SECKILL_LISTEN=127.0.0.1:$port start "seckill-$number" build/seckill
        wait_for "seckill-$number" ask "${urls[-1]}/readyz"
    done
    SECKILL_URL=${urls[0]-} SECKILL_URLS=${urls[*]-}
}

# ask URL [CURL_OPTION...]
ask() { curl --noproxy '*' --max-time 5 -fsS "$@"; }

# Puts a voucher on sale and tells how to buy it.
show_voucher() {
    local terms voucher caller="'X-User-Id: alice'"
    [[ ${SECKILL_AUTH-} != token ]] || caller="\"Authorization: Bearer \$LOGIN_TOKEN\""
    terms=$(printf '{"title": "Demo", "stock": 10, "price_cents": 100, "begin_at": "%s", "end_at": "%s"}' \
        "$(date -u +%FT%TZ)" "$(date -u -d tomorrow +%FT%TZ)")
    voucher=$(ask "$SECKILL_URL/admin/vouchers" -d "$terms" -H 'Content-Type: application/json' \
        -H @- <<<"Authorization: Bearer $SECKILL_ADMIN_TOKEN" | sed -E 's/.*"id" *: *"([0-9]+)".*/\1/')
    cat <<END
seckill is up at $SECKILL_URL, with 10 units on sale; .dev/env tells the rest. Buy one:

  curl -i -X POST -H $caller $SECKILL_URL/seckill/$voucher

or in a browser: $SECKILL_URL is the shop, $SECKILL_URL/admin/ui the operators' dashboard, whose token is SECKILL_ADMIN_TOKEN.

END
}

cmd_down() {
    local name pid since cluster
    [[ -e $STATE ]] || return 0
    if [[ -e $STATE/pids ]]; then
        while read -r name pid since; do
            stop "$name" "$pid" "$since"
        done < <(tac "$STATE/pids")
    fi
    cluster=$(readlink "$STATE/postgres" || true)
    [[ ! -e $STATE/run ]] || stop_orphans "$cluster"
    rm -rf "$STATE" ${cluster:+"$cluster"}
    say "the stack is down"
}

# borrow_stack INSTANCES: a stack that goes when this script ends, however that comes about
borrow_stack() {
    refuse_second_stack
    trap cmd_down EXIT
    trap 'exit 130' INT TERM
    start_stack "$1"
    export DATABASE_URL REDIS_URL # loadtest/ prefers these to .dev/env
}

# build_with_stack [GROUP]: installs what is missing, builds, and borrows a stack of one instance
build_with_stack() {
    refuse_second_stack
    cmd_setup "$@"
    cmd_build
    borrow_stack 1
}
