# Completion of stretto for bash 4.4 and later. The program itself says what fits.
_stretto() {
  local line=${COMP_LINE:0:COMP_POINT} word about kind
  local -a words=()
  # bash cuts words at = and :, the program does not: what follows without a space belongs together.
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if [[ ${#words[@]} -eq 0 || $line == [[:space:]]* ]]; then
      words+=("")
      line=${line#"${line%%[![:space:]]*}"}
    fi
    [[ $line == "$word"* ]] || word=$line # the cursor stands in it
    words[-1]+=$word
    line=${line#"$word"}
  done
  # What stands behind the last of these characters is replaced; the rest stays as it is written.
  local current=${words[-1]} kept= breaks=${COMP_WORDBREAKS//[^=:]/}
  [[ -n $breaks ]] && kept=${current%"${current##*[$breaks]}"}
  COMPREPLY=()
  {
    read -r kind
    while IFS=$'\t' read -r word about; do COMPREPLY+=("${word#"$kept"}"); done
  } < <("${words[0]/#~\//$HOME/}" __complete "${words[@]:1}" 2>/dev/null)
  case $kind in
    words) compopt +o default ;;
    directories) compopt +o default -o dirnames ;;
    *) # Where nothing but files fits, readline completes them by itself, and better.
      if ((${#COMPREPLY[@]} > 0)); then
        while IFS= read -r word; do
          [[ -z $current && $word == .* ]] && continue
          [[ -d $word ]] && word+=/
          printf -v word %q "$word"
          COMPREPLY+=("$word")
        done < <(compgen -f -- "${current#"$kept"}")
      fi
      ;;
  esac
  [[ ${#COMPREPLY[@]} -eq 1 && $COMPREPLY == *[=./] ]] && compopt -o nospace
  return 0
}
complete -o default -F _stretto stretto
