_nomad_csi() {
    local typed=$2 line
    # Inside quotes, the word comes without them.
    case ${COMP_WORDS[COMP_CWORD]} in
        \'"$2"*) typed=\'$2 ;;
        \""$2"*) typed=\"$2 ;;
    esac
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(COMPLETE=bash nomad-csi -- "${COMP_WORDS[@]:0:COMP_CWORD}" "$typed" 2> /dev/null)
    if compopt +o nospace 2> /dev/null && [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace
    fi
}
if [[ ${BASH_VERSINFO[0]} -gt 4 || (${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -ge 4) ]]; then
    complete -o nospace -o bashdefault -o nosort -F _nomad_csi nomad-csi
else
    complete -o nospace -o bashdefault -F _nomad_csi nomad-csi
fi
