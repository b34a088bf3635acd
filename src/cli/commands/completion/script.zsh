#compdef nomad-csi
_nomad_csi() {
    # Without the quotes that were typed; zsh quotes what it inserts.
    local -a typed=("${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}")
    local found="$(COMPLETE=zsh nomad-csi -- "${typed[@]}" 2> /dev/null)"
    [[ -n $found ]] || return 1
    local -a dirs=() other=()
    local candidate value
    for candidate in "${(@f)found}"; do
        value=${candidate%%:*}
        if [[ $value == */ ]]; then
            dirs+=("${value%/}${candidate#$value}")
        else
            other+=("$candidate")
        fi
    done
    (( $#dirs )) && _describe -V 'values' dirs -S '/' -r '/'
    (( $#other )) && _describe -V 'values' other
}

compdef _nomad_csi nomad-csi
