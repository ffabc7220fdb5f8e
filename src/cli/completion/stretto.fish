# Completion of stretto for fish. The program itself says what fits.
function __stretto_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete $words[2..] "$current" 2>/dev/null)
    printf '%s\n' $lines[2..]
    set -l kept (string match -r '^.*=' -- "$current")
    set -l rest (string replace -r '^.*=' '' -- "$current")
    switch "$lines[1]"
        case words
        case directories
            for found in (__fish_complete_directories "$rest")
                printf '%s%s\n' "$kept" $found
            end
        case '*'
            for found in (__fish_complete_path "$rest")
                printf '%s%s\n' "$kept" $found
            end
    end
end
complete -c stretto -f -a '(__stretto_complete)'
