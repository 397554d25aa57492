# ./dev test, which sources this file: all tests, or those of a name.
#
# shellcheck shell=bash

readonly SCRATCH_KB=$((4 * 1024 * 1024)) # so much memory at least for the files of the tests' servers

cmd_test() {
    if [[ ${1-} == --cluster ]]; then
        TEST_REDIS_CLUSTER=1 TEST_SHARDS=2 test_named "${2:-integration/}"
        sed -n 's/^skipped: /not run: /p' build/Testing/Temporary/LastTest.log
        return
    fi
    if [[ $# -gt 0 ]]; then
        test_named "$@"
        return
    fi
    passed=0 failed=0 step=0 steps=$(declare -f cmd_test | grep -c '^ *next_step')
    refuse_second_stack
    next_step "what is missing is installed"
    cmd_setup proxies
    cmd_setup browser
    cmd_setup kubernetes
    next_step "builds: plain, with sanitizers, with failpoints"
    build build
    build build-asan -DSK_SANITIZE=ON
    build_faults
    build_sim_asan
    next_step "tests"
    run_ctest build -LE sanitized
    next_step "tests under the sanitizers"
    run_ctest build-asan
    next_step "the manifests of Kubernetes"
    check tests/kubernetes/check --schemas
    next_step "oversell"
    borrow_stack 3
    check loadtest/oversell --self-test
    check tests/oversell
    check loadtest/oversell --duration 2 --instances 1
    check loadtest/oversell --duration 2 --instances 3
    next_step "simulated worlds"
    check tests/sim/contract
    check tests/sim/run --self-test
    check tests/sim/run 200 --minutes 1 --stories
    check tests/sim/run 20 --seed 1 --build build-sim-asan
    next_step "the pages in a browser"
    check tests/browser/run.js
    cmd_down
    trap - EXIT # from here on a stack is another terminal's
    next_step "gateways" # these two, with nothing beside them
    check tests/proxies/run
    next_step "faults"
    check tests/faults/run --short
    echo "$passed passed, $failed failed"
    ((failed == 0))
}

# next_step WHAT: with the time since ./dev began
next_step() {
    step=$((step + 1))
    printf '\n==> step %d of %d, after %d:%02d min: %s\n' "$step" "$steps" $((SECONDS / 60)) $((SECONDS % 60)) "$1"
}

# test_named NAME: builds and runs the tests whose names hold it
test_named() {
    local names name targets=()
    [[ $# -eq 1 && $1 =~ ^[a-z0-9_/]+$ ]] || usage_error "test knows one NAME of letters, digits, _ and /, not $*"
    cmd_setup
    configure build
    names=$(ctest --test-dir build -N -R "$1" | sed -nE 's/^ *Test +#[0-9]+: //p')
    if [[ -z $names ]]; then
        [[ $(type -t "cmd_$1") != function ]] || usage_error "no test's name holds $1; ./dev $1 is a command of its own"
        usage_error "no test's name holds $1; they are those of tests/unit, tests/integration, tests/golden and tests/fuzz"
    fi
    for name in $names; do
        case $name in
        unit/test_*) targets+=("${name#*/}") ;;
        integration/*) targets+=(integration) ;;
        fuzz/*) targets+=("replay_${name#*/}") ;;
        golden/*) targets+=(store_time) ;;
        esac
    done
    compile build seckill "${targets[@]}"
    run_programs build -R "$1"
}

# run_ctest FOLDER [CTEST_OPTION...]: adds the numbers of its last line to passed and failed; without that line, one
# failure
run_ctest() {
    local closing bad all
    say "tests of $1/"
    run_programs "$@" | tee "$1/ctest.log" || true
    closing=$(sed -nE 's/.*, ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p' "$1/ctest.log")
    read -r bad all <<<"${closing:-1 1}"
    passed=$((passed + all - bad)) failed=$((failed + bad))
}

# run_programs FOLDER CTEST_OPTION...: three for each core, as they mostly wait. Their Redis syncs each write to its file:
# in memory, if there is enough, that takes no time.
run_programs() (
    free=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || free=0
    if [[ -z ${TMPDIR-} && -w /dev/shm ]] && ((free >= SCRATCH_KB)); then
        export TMPDIR=/dev/shm
    fi
    ctest --test-dir "$1" -j $((3 * $(nproc))) --output-on-failure "${@:2}" </dev/null
)

# check COMMAND...: counts as one test
check() {
    say "$*"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}
