# shellcheck shell=bash
# Long commands: what they do is told, and a signal to the script ends them at once.
: "${root:?}"
TELL_SECONDS=15
CHILD=

# attend LOG WHAT USUALLY COMMAND... : runs it, keeps its output in LOG and tells its steps, and at
# least every 15 s that it runs. Its exit code. COMMAND is a program, for `contained` in it to end
# what it starts.
attend() {
  local log=$1 what=$2 usually=$3 lines narrator rc=0
  shift 3
  say "$what; it usually takes $usually"
  exec {lines}> >(narrate "$log" "$what")
  narrator=$!
  "$@" >&"$lines" 2>&1 9>&- &
  CHILD=$!
  exec {lines}>&-
  wait "$CHILD" || rc=$?
  CHILD=
  wait "$narrator" || true
  return "$rc"
}

# In the background, since bash handles a signal only between two commands, or in `wait`.
end_child() { [ -z "$CHILD" ] || kill -KILL "$CHILD" 2>/dev/null || true; }
trap end_child EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# narrate LOG WHAT : from standard input: to LOG all of it, to the person each step as it begins
narrate() {
  local line rc step='' began=$SECONDS told=$SECONDS
  trap '' INT # it ends with its input
  trap - EXIT TERM
  : >"$1"
  while :; do
    rc=0
    IFS= read -r -t "$((TELL_SECONDS - (SECONDS - told) % TELL_SECONDS))" line || rc=$?
    if [ "$rc" = 0 ]; then
      printf '%s\n' "$line" >>"$1"
      case $line in
        STEP\ * | Downloading\ *) step=$(short "$line") && printf 'images:           %s\n' "$step" >&2 && told=$SECONDS ;;
      esac
    elif [ "$rc" -le 128 ]; then
      return # end of input; more than 128 is the time that was up
    fi
    [ $((SECONDS - told)) -lt "$TELL_SECONDS" ] ||
      { say "$2: $((SECONDS - began)) s so far${step:+; $step}" && told=$SECONDS; }
  done
}

# short LINE : what a step does, without the options that say what it sees
short() {
  local text
  text=$(sed 's/^STEP //; s/--mount=[^ ]* *//g; s/  */ /g' <<<"$1")
  printf '%.90s\n' "$text"
}

# last_words LOG : the end of it, in one line, for an error
last_words() { grep -v '^STEP' "$1" | tail -3 | tr '\n' ' '; }
