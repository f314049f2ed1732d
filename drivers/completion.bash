# Bash completion of ripieno-train, ripieno-dataset and ripieno-privacy. Commands and options are read from --help, so that
# they are those of the program at hand.

# The commands, or the options, that the help on standard input lists.
_ripieno_commands() { sed -n '/^commands:/,/^$/s/^  \([a-z][a-z-]*\)  .*/\1/p'; }
_ripieno_options() { sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z][a-z0-9-]*\).*/\2/p'; }

_ripieno() {
  local program=$1 current=$2 command=()
  if [[ ${COMP_WORDS[1]:-} == [a-z]* && $COMP_CWORD -gt 1 ]]; then command=("${COMP_WORDS[1]}"); fi
  local words=""
  if [[ $current == -* ]]; then
    words=$("$program" "${command[@]}" --help 2>/dev/null | _ripieno_options)
  elif [[ $COMP_CWORD -eq 1 ]]; then
    words=$("$program" --help 2>/dev/null | _ripieno_commands)
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

# Where nothing of the program's fits, file names do.
complete -o bashdefault -o default -F _ripieno ripieno-train ripieno-dataset ripieno-privacy
