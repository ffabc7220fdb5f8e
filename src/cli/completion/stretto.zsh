#compdef stretto
# Completion of stretto for zsh. The program itself says what fits.
_stretto() {
  local line word about kind
  local -a lines whole begun
  lines=("${(@f)$("${${(Q)words[1]}/#\~\//$HOME/}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" \
    2>/dev/null)}")
  kind=$lines[1]
  for line in "${(@)lines[2,-1]}"; do
    word=${line%%$'\t'*} about=${${line#"$word"}#$'\t'}
    word=${word//:/\\:}${about:+:$about}
    if [[ ${line%%$'\t'*} == *[=.] ]]; then begun+=("$word"); else whole+=("$word"); fi
  done
  local -i found=1
  _describe -t words word whole -- begun -S '' && found=0
  if [[ $kind != words ]]; then
    compset -P '*='
    if [[ $kind == directories ]]; then _files -/; else _files; fi && found=0
  fi
  return found
}
if [[ $funcstack[1] == _stretto ]]; then _stretto "$@"; else compdef _stretto stretto; fi
