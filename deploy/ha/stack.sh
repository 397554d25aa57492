#!/usr/bin/env bash
# The stores of `./dev up --ha`, which sources this file: Redis with a replica and three sentinels, PostgreSQL with two
# standbys and pg_auto_failover's monitor, on one machine, over TLS alone. And those of `./dev up --cluster N`. Operators
# can read here what each server must be given. Each process keeps its command in $STATE/run, so that one that was killed
# can be started again.
#
# shellcheck disable=SC2034,SC2154 # STATE, DATABASE_URL and the like are those of deploy/local/stack.sh

readonly HA_MASTER=main # what the sentinels call it
readonly HA_SENTINELS=3 HA_NODES=3

# After this time a server that does not answer counts as dead. pg_auto_failover's own settings are more patient: 20 s,
# and 30 s until the new primary may be sure that the old one has stopped.
readonly HA_REDIS_DOWN_MS=2000
readonly HA_MONITOR_SETTINGS="pgautofailover.health_check_period = 1s
pgautofailover.health_check_timeout = 1s
pgautofailover.health_check_retry_delay = 500ms
pgautofailover.node_considered_unhealthy_timeout = 4s
pgautofailover.primary_demote_timeout = 6s"
readonly HA_ALONE_S=5 # a primary that sees neither monitor nor standby stops itself: before primary_demote_timeout

start_ha_stores() {
    HA_TLS=$PWD/$STATE/tls
    mkdir "$STATE/run"
    make_certificates
    start_ha_redis
    start_ha_postgres
}

# start_kept NAME COMMAND...: as `start`; the command is kept
start_kept() {
    keep "run/$1" "${@:2}"
    start "$1" "$STATE/run/$1"
}

# keep FILE COMMAND...: a script that runs the command, with the words that it is given itself at the end.
# KEPT_AUTH: redis-cli's password, which no command line shows
keep() {
    printf '#!/bin/sh\n%sexec%s "$@"\n' "${KEPT_AUTH:+export REDISCLI_AUTH=$KEPT_AUTH; }" "$(printf ' %q' "${@:2}")" >"$STATE/$1"
    chmod 700 "$STATE/$1"
}

# Starts the stores that have died.
restart_dead() {
    local name pid since
    while read -r name pid since; do
        ! alive "$pid" "$since" || continue
        [[ -e $STATE/run/$name ]] || die "$name has ended; ./dev down clears up"
        say "starting $name again"
        sed -i "/^$name /d" "$STATE/pids"
        start "$name" "$STATE/run/$name"
    done < <(cat "$STATE/pids")
}

# An authority of this stack alone, and one certificate for all servers, because all have one address.
make_certificates() {
    local new=(openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    mkdir "$HA_TLS"
    quietly "${new[@]}" -x509 -days 30 -subj "/CN=seckill's stack" -keyout "$HA_TLS/ca.key" -out "$HA_TLS/ca.crt"
    quietly "${new[@]}" -subj "/CN=server" -addext "subjectAltName=IP:127.0.0.1" \
        -keyout "$HA_TLS/server.key" -out "$HA_TLS/server.csr"
    quietly openssl x509 -req -days 30 -in "$HA_TLS/server.csr" -CA "$HA_TLS/ca.crt" -CAkey "$HA_TLS/ca.key" \
        -CAcreateserial -copy_extensions copy -out "$HA_TLS/server.crt"
}

# ---- Redis ----

start_ha_redis() {
    local number service_password replica_password sentinel_password judge_password masters sentinels=()
    service_password=$(random_secret) replica_password=$(random_secret)
    sentinel_password=$(random_secret) judge_password=$(random_secret)
    SECKILL_SENTINEL_PASSWORD=$(random_secret) SECKILL_REDIS_CA=$HA_TLS/ca.crt
    {
        sed -f - deploy/redis.acl <<<"s/SECKILL_REDIS_PASSWORD/$service_password/"
        sed -f - deploy/ha/users.acl <<<"s/REPLICA_PASSWORD/$replica_password/; s/SENTINEL_PASSWORD/$sentinel_password/"
        echo "user judge on >$judge_password ~* &* +@all"
    } >"$STATE/redis.acl"

    masters=$(free_port)
    start_ha_server redis-1 "$masters"
    start_ha_server redis-2 "$(free_port)" "replicaof 127.0.0.1 $masters"
    for ((number = 1; number <= HA_SENTINELS; number++)); do
        sentinels+=("$(free_port)")
        start_sentinel "sentinel-$number" "${sentinels[-1]}" "$masters"
    done
    sentinels=("${sentinels[@]/#/127.0.0.1:}")
    SECKILL_REDIS_URL=$(IFS=, && echo "rediss+sentinel://seckill:$service_password@${sentinels[*]}/$HA_MASTER")
    REDIS_URL=${SECKILL_REDIS_URL/seckill:$service_password/judge:$judge_password}
    KEPT_AUTH=$SECKILL_SENTINEL_PASSWORD keep sentinel redis-cli --tls --cacert "$SECKILL_REDIS_CA" \
        -h 127.0.0.1 -p "${sentinels[0]#*:}"
    wait_for sentinel-1 redis_is_watched
}

# What data nodes and sentinels have in common.
ha_redis_settings() {
    mkdir "$STATE/$1"
    cat <<END
bind 127.0.0.1
port 0
tls-port $2
tls-cert-file "$HA_TLS/server.crt"
tls-key-file "$HA_TLS/server.key"
tls-ca-cert-file "$HA_TLS/ca.crt"
tls-auth-clients no
tls-replication yes
dir "$PWD/$STATE/$1"
END
}

# start_ha_server NAME PORT [SETTING]: a file of its own, because the sentinels have it rewritten
start_ha_server() {
    say "starting $1 on port $2"
    {
        ha_redis_settings "$1" "$2"
        cat <<END
appendonly yes
appendfsync always
save ""
maxmemory-policy noeviction
aclfile "$PWD/$STATE/redis.acl"
masteruser replica
masterauth $replica_password
repl-diskless-sync-delay 0
${3-}
END
    } >"$STATE/$1.conf"
    start_kept "$1" redis-server "$PWD/$STATE/$1.conf"
}

# start_sentinel NAME PORT MASTERS_PORT
start_sentinel() {
    say "starting $1 on port $2"
    {
        ha_redis_settings "$1" "$2"
        cat <<END
requirepass $SECKILL_SENTINEL_PASSWORD
sentinel sentinel-pass $SECKILL_SENTINEL_PASSWORD
sentinel monitor $HA_MASTER 127.0.0.1 $3 $((HA_SENTINELS / 2 + 1))
sentinel auth-user $HA_MASTER sentinel
sentinel auth-pass $HA_MASTER $sentinel_password
sentinel down-after-milliseconds $HA_MASTER $HA_REDIS_DOWN_MS
sentinel failover-timeout $HA_MASTER 10000
END
    } >"$STATE/$1.conf"
    start_kept "$1" redis-server "$PWD/$STATE/$1.conf" --sentinel
}

# The sentinels agree on the master, and it has a replica that could follow it.
redis_is_watched() {
    [[ $("$STATE/sentinel" info sentinel) == *"status=ok"*"slaves=1,sentinels=$HA_SENTINELS"* ]] &&
        [[ $("$STATE/sentinel" sentinel replicas "$HA_MASTER") == *master-link-status*ok* ]]
}

# ---- PostgreSQL ----

start_ha_postgres() {
    local folder bin as number monitor hosts ports=()
    postgres_folder
    # Below HOME and XDG_RUNTIME_DIR pg_autoctl keeps its own files. Servers log in to each other with the passwords of
    # PGPASSFILE.
    as+=(env "PATH=$bin:$PATH" "HOME=$folder" "XDG_RUNTIME_DIR=$folder" "PGHOST=$folder" "PGPASSFILE=$folder/passwords")
    "${as[@]}" sh -c 'umask 077 && cat >passwords' <<END
*:*:*:autoctl_node:$(random_secret)
*:*:*:pgautofailover_replicator:$(random_secret)
END
    install -m 600 -t "$folder" "$HA_TLS/ca.crt" "$HA_TLS/server.crt" "$HA_TLS/server.key"
    chown --reference "$folder" "$folder"/{ca.crt,server.crt,server.key}

    start_monitor
    for ((number = 1; number <= HA_NODES; number++)); do
        ports+=("$(free_port)")
        start_node "$number" "${ports[-1]}"
    done
    keep pg_autoctl "${as[@]}" PGDATA="$folder/node-1" pg_autoctl
    quietly "$STATE/pg_autoctl" set formation number-sync-standbys 1
    ports=("${ports[@]/#/127.0.0.1:}")
    hosts=$(IFS=, && echo "${ports[*]}")
    make_database "$hosts" "?target_session_attrs=read-write&sslmode=verify-full&sslrootcert=$HA_TLS/ca.crt" \
        "${as[@]}" psql -X -p "${ports[0]#*:}"
}

# ha_initdb NAME SETTINGS: local logins only for who may enter the folder; from the network only with TLS and a password
ha_initdb() {
    quietly "${as[@]}" initdb -D "$folder/$1" --locale C.UTF-8 --encoding UTF8 --auth-local trust --auth-host reject
    "${as[@]}" tee -a "$1/postgresql.conf" >/dev/null <<<"unix_socket_directories = '$folder'
shared_buffers = 64MB
$2"
    "${as[@]}" tee "$1/pg_hba.conf" >/dev/null <<<"local all all trust
hostssl seckill all 127.0.0.1/32 scram-sha-256"
}

# pg_autoctl WORD...: with what every server is created with
ha_create() {
    quietly "${as[@]}" pg_autoctl create "$@" --hostname 127.0.0.1 --auth scram-sha-256 --ssl-mode verify-full \
        --ssl-ca-file "$folder/ca.crt" --server-cert "$folder/server.crt" --server-key "$folder/server.key"
}

# give_password LOGIN PSQL...: the one of PGPASSFILE
give_password() {
    "${@:2}" -q -v ON_ERROR_STOP=1 <<<"alter role $1 password '$("${as[@]}" sed -n "s/.*:$1://p" passwords)'"
}

start_monitor() {
    local port
    port=$(free_port)
    say "starting the monitor on port $port"
    ha_initdb monitor "$HA_MONITOR_SETTINGS"
    ha_create monitor --pgdata "$folder/monitor" --pgport "$port"
    quietly "${as[@]}" pg_autoctl config set postgresql.listen_addresses 127.0.0.1 --pgdata "$folder/monitor"
    start_kept monitor "${as[@]}" pg_autoctl run --pgdata "$folder/monitor"
    wait_for monitor "${as[@]}" pg_isready -q -h 127.0.0.1 -p "$port"
    give_password autoctl_node "${as[@]}" psql -X -p "$port" pg_auto_failover
    monitor="postgresql://autoctl_node@127.0.0.1:$port/pg_auto_failover?sslmode=verify-full&sslrootcert=$folder/ca.crt"
}

# start_node NUMBER PORT: the first one is the primary, the others copy it
start_node() {
    local name=node-$1
    say "starting PostgreSQL, $name, on port $2"
    (($1 > 1)) || ha_initdb "$name" ""
    ha_create postgres --name "$name" --pgdata "$folder/$name" --pgport "$2" --pghost "$folder" --listen 127.0.0.1 \
        --dbname postgres --username postgres --monitor "$monitor"
    quietly "${as[@]}" pg_autoctl config set timeout.network_partition_timeout "$HA_ALONE_S" --pgdata "$folder/$name"
    start_kept "$name" "${as[@]}" pg_autoctl run --pgdata "$folder/$name"
    if (($1 == 1)); then
        wait_for "$name" "${as[@]}" psql -X -p "$2" -c 'select from pg_roles' postgres
        give_password pgautofailover_replicator "${as[@]}" psql -X -p "$2" postgres
    fi
    wait_for "$name" node_is "$name" "$( (($1 == 1)) && echo single || echo secondary)"
}

# node_is NAME STATE: it has it, and is to have it
node_is() {
    "${as[@]}" pg_autoctl show state --pgdata "$folder/monitor" | grep -qE "^ *$1 .* $2 \| +$2$"
}

# stop_orphans FOLDER: servers whose pg_autoctl was killed
stop_orphans() {
    local file pid
    for file in "$1"/*/postmaster.pid; do
        pid=$(head -n 1 "$file" 2>/dev/null) || continue
        # After a restart of the machine the id may be another process's. PostgreSQL runs in its data folder.
        [[ ! /proc/$pid/cwd -ef ${file%/*} ]] || kill -s QUIT "$pid" 2>/dev/null || true
    done
}

# ---- what a person can do with it ----

show_ha() {
    cat <<END
Redis: redis-1 and redis-2, watched by $HA_SENTINELS sentinels. PostgreSQL: node-1 to node-$HA_NODES, watched by a monitor. To switch:

  .dev/sentinel sentinel failover $HA_MASTER         another Redis becomes the master
  .dev/pg_autoctl perform failover           another PostgreSQL becomes the primary
  kill -9 PID                                of .dev/pids, and of its children; ./dev up --ha starts it again

To look: .dev/sentinel sentinel masters, .dev/pg_autoctl show state, .dev/pg_autoctl show events. Buyers: loadtest/oversell

END
}

# ---- the Redis Cluster of `./dev up --cluster N` ----

# start_cluster MASTERS: each with a replica, which redis-cli chooses. On one machine alone, without TLS. FOR_BENCH:
# without replicas, which would take the masters' cores, and a node that is late is not given up.
start_cluster() {
    local number service_password replica_password judge_password nodes=() replicas=1 down_ms=$HA_REDIS_DOWN_MS count
    [[ -z ${FOR_BENCH-} ]] || replicas=0 down_ms=15000
    count=$(($1 * (1 + replicas)))
    service_password=$(random_secret) replica_password=$(random_secret) judge_password=$(random_secret)
    mkdir "$STATE/run"
    {
        sed -f - deploy/redis.acl <<<"s/SECKILL_REDIS_PASSWORD/$service_password/"
        sed -f - deploy/ha/users.acl <<<"/^user replica /!d; s/REPLICA_PASSWORD/$replica_password/"
        echo "user judge on >$judge_password ~* &* +@all"
    } >"$STATE/redis.acl"
    for ((number = 1; number <= count; number++)); do
        nodes+=("127.0.0.1:$(free_port)")
        start_cluster_node "redis-$number" "${nodes[-1]#*:}"
    done
    SECKILL_REDIS_URL=redis+cluster://seckill:$service_password@$(IFS=, && echo "${nodes[*]}")
    REDIS_URL=${SECKILL_REDIS_URL/seckill:$service_password/judge:$judge_password}
    KEPT_AUTH=$judge_password keep redis-cli redis-cli --user judge -c -h 127.0.0.1 -p "${nodes[0]#*:}"
    for ((number = 1; number <= count; number++)); do
        wait_for "redis-$number" cluster_node_answers "${nodes[number - 1]#*:}"
    done
    quietly "$STATE/redis-cli" --cluster create "${nodes[@]}" --cluster-replicas "$replicas" --cluster-yes
    wait_for redis-1 cluster_is_whole $((count - $1))
}

# start_cluster_node NAME PORT
start_cluster_node() {
    say "starting $1 on port $2"
    mkdir "$STATE/$1"
    echo "masterauth $replica_password" >"$STATE/$1.conf"
    start_kept "$1" redis-server "$PWD/$STATE/$1.conf" --bind 127.0.0.1 --port "$2" --dir "$PWD/$STATE/$1" --save '' \
        --appendonly yes --appendfsync always --maxmemory-policy noeviction --aclfile "$PWD/$STATE/redis.acl" \
        --masteruser replica --repl-diskless-sync-delay 0 --cluster-enabled yes --cluster-port "$(free_port)" \
        --cluster-node-timeout "$down_ms" --cluster-require-full-coverage no
}

cluster_node_answers() { [[ $("$STATE/redis-cli" -p "$1" ping) == PONG ]]; }

# cluster_is_whole REPLICAS: all slots are served, and there are so many replicas
cluster_is_whole() {
    local info
    info=$("$STATE/redis-cli" cluster info)
    [[ $info == *cluster_state:ok* && $info == *cluster_slots_ok:16384* ]] &&
        (($("$STATE/redis-cli" cluster nodes | grep -c ' slave .* connected') == $1))
}

show_cluster() {
    cat <<END
Redis: $1 masters with a replica each. To switch:

  .dev/redis-cli cluster nodes               who has which slots
  .dev/redis-cli --cluster reshard ADDRESS   moves slots
  kill -9 PID                                of .dev/pids; ./dev up --cluster $1 starts it again

Buyers: loadtest/oversell

END
}
