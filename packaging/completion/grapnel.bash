# bash completion for grapnel(1). The command itself says what may stand here:
# a word a line, with a tab and what it means; or that a file is meant.
_grapnel() {
  local line file cur=${COMP_WORDS[COMP_CWORD]}
  [ "$cur" != = ] || cur=
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files | :folders)
        compopt -o filenames 2>/dev/null
        while IFS= read -r file; do
          COMPREPLY+=("$file")
        done < <([ "$line" = :files ] && compgen -f -- "$cur" || compgen -d -- "$cur") ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _grapnel grapnel
