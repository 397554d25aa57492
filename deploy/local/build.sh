# How ./dev, which sources this file, builds: each kind of build in a folder of its own, and the Debian package.
#
# shellcheck shell=bash

# with_progress COMMAND...: shows how far a build, or apt-get with APT::Status-Fd=3, has come; all that it printed only if
# it fails. Not 1: apt closes that file for the packages' scripts, whose output it is where /dev/pts is not mounted.
with_progress() {
    local output
    output=$(mktemp)
    "$@" 2>&1 3>&1 </dev/null | tee "$output" | show_progress || {
        cat "$output" >&2
        rm "$output"
        die "$1 failed"
    }
    rm "$output"
}

# On a terminal one line that changes; else a line for each quarter. Nothing where nothing is to be done.
show_progress() {
    local line what="" now percent shown=0 each=25 begin="    " end=$'\n'
    [[ ! -t 1 ]] || each=1 begin=$'\r    ' end=$'\033[K'
    SECONDS=0
    while IFS= read -r line; do
        case $line in
        "["*"] Building "* | "["*"] Linking "*) now=building line=${line#"["} ;;
        dlstatus:*) now=downloading line=${line#*:*:} ;;
        pmstatus:*) now=installing line=${line%:*} line=${line##*:} ;;
        *) continue ;;
        esac
        [[ $line =~ ^\ *([0-9]+)(/([0-9]+))? ]] || continue # make prints percent, Ninja 12/345
        percent=$((BASH_REMATCH[1] * 100 / ${BASH_REMATCH[3]:-100}))
        [[ $now == "$what" ]] || what=$now shown=0
        ((percent >= shown + each && percent < 100)) || continue
        shown=$((percent - percent % each))
        printf '%s%s: %d %%, %d s%s' "$begin" "$what" "$shown" "$SECONDS" "$end"
    done
    [[ -z $what ]] || printf '%s%s: ended after %d s%s\n' "$begin" "$what" "$SECONDS" "${end%$'\n'}"
}

# build FOLDER CMAKE_OPTION...
build() {
    configure "$@"
    compile "$1" all
}

# configure FOLDER CMAKE_OPTION...: for Ninja if it is there and the folder is new. It spends less than make around each
# compilation, and does not wait for the last file of a floor before it begins the next.
configure() {
    local generator=()
    if [[ ! -e $1/CMakeCache.txt ]] && command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    quietly cmake -S . -B "$1" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release "${@:2}"
}

# compile FOLDER TARGET...
compile() {
    say "building into $1/"
    with_progress cmake --build "$1" -j "$(nproc)" --target "${@:2}"
}

# The tests are built by ./dev test alone: they take three times as long as the service.
cmd_build() {
    configure build
    compile build seckill installed_files
}

# With the flags that Debian builds its own packages with. The date is that of the commit, so the same commit gives the
# same package.
cmd_package() {
    local flags linker
    cmd_setup package
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    flags="$(dpkg-buildflags --get CPPFLAGS) $(dpkg-buildflags --get CFLAGS)"
    linker="$(DEB_BUILD_MAINT_OPTIONS=hardening=+bindnow dpkg-buildflags --get LDFLAGS)"
    build build-package -DSK_DEBIAN=ON -DSK_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr -DSK_UNIT_DIR=/lib/systemd/system \
        -DSK_MAINTAINER="${DEBFULLNAME:-seckill packager} <${DEBEMAIL:-packager@seckill.example}>" \
        -DSK_RELEASE="${1-}" -DCMAKE_C_FLAGS="$flags" -DCMAKE_EXE_LINKER_FLAGS="$linker"
    rm -f build-package/*.deb
    quietly env -C build-package cpack
    say "lintian"
    lintian --allow-root --display-info --pedantic --fail-on error,warning,info,pedantic --info build-package/*.deb
    echo build-package/*.deb
}

# ---- kinds of builds ----

configure_approaches() { configure build-approaches -DSK_APPROACHES=ON -DSK_TESTS=OFF; }

configure_faults() { configure build-faults -DSK_FAILPOINTS=ON -DSK_TESTS=OFF; }

build_faults() {
    configure_faults
    compile build-faults all
}

build_sim_asan() {
    configure build-sim-asan -DSK_FAILPOINTS=ON -DSK_SANITIZE=ON -DSK_TESTS=OFF
    compile build-sim-asan sim store_time seckill
}

build_faults_asan() { build build-faults-asan -DSK_FAILPOINTS=ON -DSK_SANITIZE=ON -DSK_TESTS=OFF; }
