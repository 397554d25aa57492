# ./dev setup, which sources this file: installs what is missing, from Debian and by the lock files of npm.
#
# shellcheck shell=bash

readonly PACKAGES=(build-essential cmake ninja-build pkg-config libmicrohttpd-dev libhiredis-dev libpq-dev libjansson-dev
    libuv1-dev libssl-dev libcurl4-openssl-dev systemtap-sdt-dev esbuild check redis-server redis-tools postgresql postgresql-client wrk curl python3 python3-jsonschema)
readonly PACKAGES_LINT=(clang-format clang-tidy shellcheck bpftrace libzookeeper-mt-dev man-db systemd python3-yaml)
readonly PACKAGES_BENCH=(webdis nginx-light libnginx-mod-http-lua h2o golang-go golang-github-valyala-fasthttp-dev
    golang-github-gomodule-redigo-dev golang-github-jackc-pgx-v4-dev valgrind)
readonly PACKAGES_NODE=(nodejs npm) # of bench, browser and openapi, too, unless both are here from elsewhere: then Debian's would conflict
readonly PACKAGES_MODEL=(spin)
readonly PACKAGES_MUTANTS=(python3-clang-14)
readonly PACKAGES_FUZZ=(clang libclang-rt-14-dev)
readonly PACKAGES_PROXIES=(nginx-light haproxy)
readonly PACKAGES_STORES=(openssl python3-yaml)
readonly PACKAGES_KUBERNETES=(python3-yaml)
readonly PACKAGES_HA=(openssl postgresql-15-auto-failover pg-auto-failover-cli)
readonly PACKAGES_MONITORING=(prometheus prometheus-alertmanager python3-prometheus-client python3-yaml)
readonly PACKAGES_CLIENTS=(openjdk-17-jdk-headless libspring-web-java)
readonly PACKAGES_APPROACHES=(zookeeper libzookeeper-mt-dev)
readonly PACKAGES_BROWSER=(chromium-headless-shell fonts-noto-cjk fonts-dejavu-core)
readonly PACKAGES_ENGINES=(firefox-esr webkit2gtk-driver xvfb)
readonly PACKAGES_PACKAGE=(dpkg-dev fakeroot lintian debootstrap)
readonly PACKAGES_CLEAN=(debootstrap)

readonly NODE_CONTENDER=loadtest/contenders/node
readonly BROWSER_TESTS=tests/browser
readonly KUBERNETES_TESTS=tests/kubernetes
readonly OPENAPI_TESTS=tests/openapi
readonly CLIENT_TESTS=tests/clients

cmd_setup() {
    local wanted=("${PACKAGES[@]}")
    case ${1-} in
    lint) wanted+=("${PACKAGES_LINT[@]}") ;;
    bench)
        wanted+=("${PACKAGES_BENCH[@]}")
        has_node || wanted+=("${PACKAGES_NODE[@]}")
        ;;
    model) wanted+=("${PACKAGES_MODEL[@]}") ;;
    mutants) wanted+=("${PACKAGES_MUTANTS[@]}") ;;
    fuzz) wanted+=("${PACKAGES_FUZZ[@]}") ;;
    proxies) wanted+=("${PACKAGES_PROXIES[@]}") ;;
    stores) wanted+=("${PACKAGES_STORES[@]}") ;;
    ha) wanted+=("${PACKAGES_HA[@]}") ;;
    browser)
        wanted+=("${PACKAGES_BROWSER[@]}")
        has_node || wanted+=("${PACKAGES_NODE[@]}")
        ;;
    engines) wanted+=("${PACKAGES_ENGINES[@]}") ;;
    kubernetes)
        wanted+=("${PACKAGES_KUBERNETES[@]}")
        has_node || wanted+=("${PACKAGES_NODE[@]}")
        ;;
    clients)
        wanted+=("${PACKAGES_CLIENTS[@]}")
        has_node || wanted+=("${PACKAGES_NODE[@]}")
        ;;
    approaches) wanted+=("${PACKAGES_APPROACHES[@]}") ;;
    monitoring) wanted+=("${PACKAGES_MONITORING[@]}") ;;
    package) wanted+=("${PACKAGES_PACKAGE[@]}") ;;
    clean) wanted+=("${PACKAGES_CLEAN[@]}") ;;
    openapi) has_node || wanted+=("${PACKAGES_NODE[@]}") ;;
    ?*) die "setup knows lint, bench, model, mutants, fuzz, proxies, stores, ha, browser, engines, clients, kubernetes, openapi, monitoring, approaches, package and clean, not $1" ;;
    esac
    setup_packages "${1-}" "${wanted[@]}"
    case ${1-} in
    bench) setup_node_modules "$NODE_CONTENDER" || say "npm failed: the bench will not run the contender node" ;;
    browser) setup_node_modules "$BROWSER_TESTS" || die "npm failed: without these there is no browser test" ;;
    kubernetes) setup_node_modules "$KUBERNETES_TESTS" || die "npm failed: without these there are no schemas" ;;
    openapi) setup_node_modules "$OPENAPI_TESTS" || die "npm failed: without these nothing reads the document" ;;
    clients) setup_node_modules "$CLIENT_TESTS" || die "npm failed: without these no TypeScript is compiled" ;;
    esac
}

# setup_packages GROUP PACKAGE...
setup_packages() {
    local wanted=("${@:2}") package missing=""
    [[ -x /usr/bin/apt-get ]] || {
        say "not Debian, so see to it yourself that these packages, or their like, are here: ${wanted[*]}"
        return
    }
    for package in "${wanted[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=" $package"
    done
    [[ -n $missing ]] || return 0
    ((EUID == 0)) || die "Debian packages are missing. As root, run ./dev setup${1:+ $1}, or
  apt-get update && apt-get install --no-install-recommends$missing"
    say "installing with apt-get:$missing"
    install_packages "$missing"
}

has_node() { command -v node >/dev/null && command -v npm >/dev/null; }

# setup_node_modules FOLDER: its libraries, exactly those of its lock file, unless they are here.
setup_node_modules() {
    local output
    has_node || return
    [[ ! $1/node_modules/.package-lock.json -nt $1/package-lock.json ]] || return 0
    say "installing with npm: the libraries of $1"
    output=$(PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 \
        npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund 2>&1 </dev/null) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}

# Debian starts a server as soon as it is installed, and at every boot. The new ones stay off, as the
# stack's are private; servers that were here before are left alone.
install_packages() (
    export DEBIAN_FRONTEND=noninteractive
    policy=/usr/sbin/policy-rc.d cluster=/etc/postgresql-common/createcluster.d/seckill.conf
    trap 'rm -f "$cluster" ${policy:+"$policy"}' EXIT
    mkdir -p "${cluster%/*}"
    echo 'create_main_cluster = false' >"$cluster"
    if [[ -e $policy ]]; then
        policy=""
    else
        # shellcheck disable=SC2016 # $1 is the policy's own
        printf '#!/bin/sh\ncase "%s " in *" $1"*) exit 101 ;; esac\n' "$1" >"$policy"
        chmod 755 "$policy"
    fi
    quietly apt-get -q update
    # shellcheck disable=SC2086 # a list of words
    with_progress apt-get -qy -o APT::Status-Fd=3 --no-install-recommends install $1
    for server in redis-server nginx haproxy webdis h2o prometheus prometheus-alertmanager prometheus-node-exporter; do
        if [[ "$1 " == *" $server"* && -x /usr/bin/systemctl ]]; then
            quietly systemctl disable "$server"
        fi
    done
)
