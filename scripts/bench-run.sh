#!/bin/sh
# bench-run.sh: one run of bmoe-cli with a fixed prompt, and what it does to the machine meanwhile.
#
#   bench-run.sh [-n TOKENS] CLI MODEL OUT [ENGINE FLAG...]    writes OUT.csv, OUT.log, OUT.txt and OUT.metrics
#   bench-run.sh --state                                       prints the state of the machine as name=value
#
# Runs on a phone as on a desktop: POSIX sh, the commands cat, date, printf, readlink, rm and sleep, nothing else. Experts are streamed
# unless the flags say otherwise. OUT.log is what bmoe-cli writes to stderr, OUT.txt the generated text, OUT.pid the process to
# send SIGTERM to while it runs. Exit status: that of bmoe-cli; 2 for what is refused; 3 if experts went through the page cache;
# 130 or 143 after an interrupt, which leaves what was recorded.
set -u

# Baked in: quotes and blanks in an argument would have to survive adb and the shell of the device.
prompt='Explain to a curious reader, slowly and with one worked example, how a library with a small reading room and a vast
cellar should decide which books stay upstairs, what it costs to fetch one from below, and how it notices that a reader will
soon ask for another.'

# Tests of the sampling alone set these: nobody can heat a sensor to order.
proc=${BMOE_BENCH_PROC:-/proc}
sys=${BMOE_BENCH_SYS:-/sys}

newline='
'

fail() {
    printf 'bench-run: error: %s\n' "$*" >&2
    exit 2
}

# Readers set `got`; -1 where there is nothing to read. No command is started for a sample, so that sampling costs next to
# nothing. The arithmetic stays within 32 bits, which is all that the shell of Android has.

first_line() {
    got=-1
    { read -r got <"$1"; } 2>/dev/null || got=-1
}

whole_number() {
    first_line "$1"
    case $got in
    '' | *[!0-9]*) got=-1 ;;
    esac
}

# KiB as bytes, in two halves.
bytes_of_kib() {
    if [ "$1" -lt 0 ]; then
        got=-1
        return
    fi
    bytes_high=$(($1 / 1000 * 1024))
    bytes_low=$(($1 % 1000 * 1024))
    bytes_high=$((bytes_high + bytes_low / 1000))
    bytes_low=$((bytes_low % 1000))
    if [ "$bytes_high" -eq 0 ]; then
        got=$bytes_low
    else
        # Three digits.
        bytes_low=$((bytes_low + 1000))
        got=$bytes_high${bytes_low#1}
    fi
}

# The KiB of a line such as "MemAvailable:  123 kB".
kib_of_line() {
    kib_found=-1
    { while read -r kib_name kib_value kib_unit; do
        if [ "$kib_name" = "$2:" ]; then
            kib_found=$kib_value
            break
        fi
    done <"$1"; } 2>/dev/null
    got=$kib_found
}

# Files with the temperatures of the processor, found once: their kinds do not change. Never cpu-hw-trip-*, which are the fixed
# temperatures at which the hardware would trip.
find_cpu_sensors() {
    cpu_sensors=
    for zone in "$sys"/class/thermal/thermal_zone*; do
        first_line "$zone/type"
        case $got in
        cpu-hw-trip-*) ;;
        cpu* | CPU* | x86_pkg_temp | TCPU* | mtktscpu* | soc_thermal | soc-thermal | BIG | MID | LITTLE)
            cpu_sensors=$cpu_sensors$zone/temp$newline
            ;;
        esac
    done
    # PCs whose processor is in hwmon alone.
    for monitor in "$sys"/class/hwmon/hwmon*; do
        first_line "$monitor/name"
        case $got in
        coretemp | k10temp | zenpower)
            for sensor in "$monitor"/temp*_input; do
                cpu_sensors=$cpu_sensors$sensor$newline
            done
            ;;
        esac
    done
}

# The hottest, in thousandths of a degree. What is not above zero, or absurd, is a sensor that is switched off.
cpu_temperature() {
    hottest=-1
    old_ifs=$IFS
    IFS=$newline
    for sensor in $cpu_sensors; do
        whole_number "$sensor"
        if [ "$got" -gt "$hottest" ] && [ "$got" -gt 0 ] && [ "$got" -lt 200000 ]; then
            hottest=$got
        fi
    done
    IFS=$old_ifs
    got=$hottest
}

degrees() {
    if [ "$1" -lt 0 ]; then
        got=-1
    else
        got=$(($1 / 1000)).$(($1 % 1000 / 100))
    fi
}

# Of the processors the highest: the cluster that gives a phone its speed.
scaling_max_freq() {
    highest=-1
    for processor in "$sys"/devices/system/cpu/cpu[0-9]*; do
        whole_number "$processor/cpufreq/scaling_max_freq"
        if [ "$got" -gt "$highest" ]; then
            highest=$got
        fi
    done
    got=$highest
}

find_battery() {
    battery=
    for supply in "$sys"/class/power_supply/*; do
        first_line "$supply/type"
        [ "$got" = Battery ] || continue
        first_line "$supply/scope"
        [ "$got" = Device ] && continue # of a mouse
        battery=$supply
        break
    done
}

# Sets battery_temp in tenths of a degree, and battery_level.
read_battery() {
    battery_temp=-1
    battery_level=-1
    if [ -n "$battery" ]; then
        whole_number "$battery/temp"
        battery_temp=$got
        whole_number "$battery/capacity"
        battery_level=$got
    fi
    if [ "$battery_level" -lt 0 ] && command -v dumpsys >/dev/null; then
        while read -r field value rest; do
            case $field in
            temperature:) battery_temp=$value ;;
            level:) battery_level=$value ;;
            esac
        done <<END
$(dumpsys battery 2>/dev/null)
END
    fi
}

tenths() {
    if [ "$1" -lt 0 ]; then
        got=-1
    else
        got=$(($1 / 10)).$(($1 % 10))
    fi
}

# The share of the last 10 s in which something waited for $1, in hundredths of a percent.
pressure() {
    first_line "$proc/pressure/$1"
    case $got in
    'some avg10='*)
        got=${got#some avg10=}
        got=${got%% *}
        pressure_part=1${got#*.}
        got=$((${got%.*} * 100 + pressure_part - 100))
        ;;
    *) got=-1 ;;
    esac
}

hundredths() {
    if [ "$1" -lt 0 ]; then
        got=-1
    else
        hundredths_part=$(($1 % 100 + 100))
        got=$(($1 / 100)).${hundredths_part#1}
    fi
}

# Sets idle_ticks and all_ticks of all processors together; false where they cannot be read.
processor_ticks() {
    first_line "$proc/stat"
    case $got in
    'cpu '*) ;;
    *) return 1 ;;
    esac
    # Words on purpose: name, user, nice, system, idle, iowait, irq, softirq, steal.
    set -- $got
    idle_ticks=$5
    all_ticks=$(($2 + $3 + $4 + $5 + ${6:-0} + ${7:-0} + ${8:-0} + ${9:-0}))
}

# Over one second, in percent.
cpu_idle() {
    got=-1
    processor_ticks || return
    idle_before=$idle_ticks
    all_before=$all_ticks
    sleep 1
    processor_ticks || return
    idle_before=$((idle_ticks - idle_before))
    all_before=$((all_ticks - all_before))
    got=-1
    if [ "$all_before" -gt 0 ]; then
        idle_before=$((idle_before * 1000 / all_before))
        tenths $idle_before
    fi
}

print_state() {
    find_cpu_sensors
    cpu_idle
    printf 'cpu_idle_percent=%s\n' "$got"
    cpu_temperature
    degrees "$got"
    printf 'cpu_temp_c=%s\n' "$got"
    kib_of_line "$proc/meminfo" MemAvailable
    bytes_of_kib "$got"
    printf 'mem_available_bytes=%s\n' "$got"
    scaling_max_freq
    printf 'scaling_max_freq_khz=%s\n' "$got"
}

# Stops with a sentence if the file is on a FUSE mount: direct reads there may return wrong bytes.
refuse_fuse() {
    mount_found=
    mount_type=
    { while read -r device folder type rest; do
        case $folder in
        *\\*) folder=$(printf '%b' "$folder") ;; # \040 is a blank
        esac
        case $1 in
        "${folder%/}"/*)
            # Of mounts at one place the last is the one that is seen.
            if [ "${#folder}" -ge "${#mount_found}" ]; then
                mount_found=$folder
                mount_type=$type
            fi
            ;;
        esac
    done <"$proc/mounts"; } 2>/dev/null
    case $mount_type in
    fuse* | sdcardfs)
        fail "the model $1 is on $mount_found, a FUSE mount ($mount_type), where direct reads may return wrong bytes: copy it" \
            "to a real file system, such as /data/local/tmp on a phone"
        ;;
    esac
}

# `largest NAME VALUE`, `smallest NAME VALUE`: keep the extreme of what was measured in the variable NAME.
largest() {
    eval "kept=\$$1"
    if [ "$2" -gt "$kept" ]; then
        eval "$1=\$2"
    fi
}

smallest() {
    eval "kept=\$$1"
    if [ "$2" -ge 0 ] && { [ "$kept" -lt 0 ] || [ "$2" -lt "$kept" ]; }; then
        eval "$1=\$2"
    fi
}

sample_machine() {
    kib_of_line "$proc/meminfo" MemAvailable
    mem_end=$got
    smallest mem_floor "$got"
    cpu_temperature
    largest cpu_temp_max "$got"
    scaling_max_freq
    smallest freq_min "$got"
    for kind in cpu memory io; do
        pressure $kind
        largest psi_$kind "$got"
    done
}

# Major faults and the peak of the process. False once it has ended, although nobody has waited for it yet.
sample_process() {
    first_line "/proc/$child/stat"
    [ "$got" = -1 ] && return 1
    # Words on purpose, from the third field on: the second, the name, may hold blanks.
    set -- ${got##*) }
    largest majflt "${10}"
    [ "$1" = Z ] && return 1
    kib_of_line "/proc/$child/status" VmHWM
    largest peak_rss "$got"
    return 0
}

sample_battery() {
    read_battery
    largest battery_temp_max "$battery_temp"
}

on_signal() {
    if [ "$interrupted" -ne 0 ]; then
        kill -KILL "$child" 2>/dev/null
        return
    fi
    interrupted=$1
    # Not SIGINT: shells start a program in the background with that ignored.
    [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}

# Reads from the log: o_direct, the tokens generated, the error, and the peak that the engine saw at its end, which samples
# of a short run miss.
read_log() {
    o_direct=-1
    generated=
    generation=
    cli_error=
    { while read -r line; do
        case $line in
        moe-stream:*' o_direct=1') o_direct=1 ;;
        moe-stream:*' o_direct=0') o_direct=0 ;;
        generation:*)
            generation=$line
            generated=${line#generation: }
            generated=${generated%% *}
            ;;
        compute:*', peak RSS '*)
            peak_mib=${line#*, peak RSS }
            peak_mib=${peak_mib%% MiB*}
            largest peak_rss $((peak_mib * 1024))
            ;;
        error:*) cli_error=${line#error: } ;;
        note:* | memory:* | progress:* | '') ;;
        *) cli_error=${cli_error:-$line} ;; # a wrong command line is explained without a word before it
        esac
    done <"$out.log"; } 2>/dev/null
}

# What went wrong, as a sentence; sets `status`.
judge() {
    complaint=
    if [ "$interrupted" -ne 0 ]; then
        status=$interrupted
        complaint='interrupted; what was recorded until then is kept'
    elif [ "$status" -ne 0 ]; then
        complaint="bmoe-cli ended with status $status: ${cli_error:-it said nothing}"
    elif [ "$o_direct" = 0 ]; then
        status=3
        complaint="experts were read through the page cache (o_direct=0), so this measured memory as much as storage: put the \
model on a file system that takes direct reads, and leave out --no-odirect"
    fi
}

write_metrics() {
    one_line=
    for word in $prompt; do
        one_line="$one_line${one_line:+ }$word"
    done
    bytes_of_kib "$peak_rss" && peak_rss_bytes=$got
    bytes_of_kib "$mem_start" && mem_start_bytes=$got
    bytes_of_kib "$mem_floor" && mem_floor_bytes=$got
    bytes_of_kib "$mem_end" && mem_end_bytes=$got
    degrees "$cpu_temp_start" && cpu_temp_start_c=$got
    degrees "$cpu_temp_max" && cpu_temp_max_c=$got
    tenths "$battery_temp_start" && battery_temp_start_c=$got
    tenths "$battery_temp_max" && battery_temp_max_c=$got
    hundredths "$psi_cpu" && psi_cpu_max=$got
    hundredths "$psi_memory" && psi_memory_max=$got
    hundredths "$psi_io" && psi_io_max=$got
    cat >"$out.metrics" <<END
bench_run=1
model=$model
tokens=$tokens
prompt=$one_line
exit_status=$status
start_time=$start_time
seconds=$seconds
o_direct=$o_direct
peak_rss_bytes=$peak_rss_bytes
mem_available_start_bytes=$mem_start_bytes
mem_available_floor_bytes=$mem_floor_bytes
mem_available_end_bytes=$mem_end_bytes
cpu_temp_start_c=$cpu_temp_start_c
cpu_temp_max_c=$cpu_temp_max_c
battery_temp_start_c=$battery_temp_start_c
battery_temp_max_c=$battery_temp_max_c
battery_level_start=$battery_level_start
scaling_max_freq_start_khz=$freq_start
scaling_max_freq_min_khz=$freq_min
psi_cpu_max=$psi_cpu_max
psi_memory_max=$psi_memory_max
psi_io_max=$psi_io_max
majflt=$majflt
samples=$samples
END
}

usage='usage: bench-run.sh [-n TOKENS] CLI MODEL OUT [ENGINE FLAG...], or bench-run.sh --state'

if [ "${1:-}" = --state ]; then
    [ $# -eq 1 ] || fail "$usage"
    print_state
    exit 0
fi

tokens=256
if [ "${1:-}" = -n ]; then
    tokens=${2:-}
    case $tokens in
    '' | 0* | *[!0-9]*) fail "-n takes a number of tokens, from 1; not '$tokens'" ;;
    esac
    shift 2
fi
case ${1:-} in
-*) fail "unknown option $1; $usage" ;;
esac
[ $# -ge 3 ] || fail "$usage"
cli=$1
model=$2
out=$3
shift 3

command -v "$cli" >/dev/null 2>&1 || fail "there is no program $cli, or it may not be executed: give the path of bmoe-cli"
[ -f "$model" ] || fail "there is no model $model: give the path of a GGUF file"
resolved=$(readlink -f "$model") || fail "the path of the model $model cannot be resolved"
refuse_fuse "$resolved"
rm -f "$out.csv" "$out.log" "$out.txt" "$out.metrics" "$out.pid"
{ true >"$out.log"; } 2>/dev/null || fail "$out.log cannot be written: give a name in a folder that exists and can be written"

child=
interrupted=0
trap 'rm -f "$out.pid"' EXIT
trap 'on_signal 130' INT
trap 'on_signal 143' TERM
trap 'on_signal 129' HUP
printf '%s\n' $$ >"$out.pid" # last: whoever reads it may send a signal

mem_floor=-1 mem_end=-1 cpu_temp_max=-1 freq_min=-1 psi_cpu=-1 psi_memory=-1 psi_io=-1
majflt=-1 peak_rss=-1 battery_temp_max=-1 samples=0
find_cpu_sensors
find_battery
sample_machine
sample_battery
mem_start=$mem_end
cpu_temp_start=$cpu_temp_max
freq_start=$freq_min
battery_temp_start=$battery_temp_max
battery_level_start=$battery_level

start_time=$(date -u +%Y-%m-%dT%H:%M:%SZ)
started=$(date +%s)
# The flags come last: of an option given twice bmoe-cli takes the last.
"$cli" -m "$model" --moe-stream on -p "$prompt" -n "$tokens" --csv "$out.csv" --progress "$@" \
    </dev/null >"$out.txt" 2>"$out.log" &
child=$!
[ "$interrupted" -eq 0 ] || kill -TERM "$child" 2>/dev/null

# kill -0 too: /proc may be hidden.
while kill -0 "$child" 2>/dev/null && sample_process; do
    sample_machine
    samples=$((samples + 1))
    # The battery is slow, and asking for it starts a program on a phone.
    [ $((samples % 30)) -ne 0 ] || sample_battery
    sleep 1
done
wait "$child"
status=$?
seconds=$(($(date +%s) - started))
sample_machine
sample_battery

read_log
judge
write_metrics
if [ -n "$complaint" ]; then
    printf 'bench-run: error: %s\n' "$complaint" >&2
    exit "$status"
fi
if [ "$generated" != "$tokens" ]; then
    printf 'bench-run: note: the model ended its text after %s of %s tokens\n' "$generated" "$tokens" >&2
fi
if [ "$o_direct" = -1 ]; then
    printf 'bench-run: note: no expert was streamed with these flags\n' >&2
fi
printf '%s\n' "$generation"
