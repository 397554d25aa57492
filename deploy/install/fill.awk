# Fills a template with the output of `seckill --help`, so that manual, completion, unit and settings file name the same
# commands and settings as the program.
#   awk -v version=... -v bindir=... -v defaults=... -v sandbox=... -f fill.awk HELP TEMPLATE
# A line of the template that is one of these words becomes a list; in other lines they are replaced:
#   @COMMANDS@ @SETTINGS@      of a manual page
#   @ASSIGNMENTS@              of a settings file: each setting with its default, commented out
#   @CREDENTIALS@              of the service's unit: each secret that the service reads
#   @SANDBOX@                  of a unit: the file that -v sandbox=FILE names
#   @CHOICES@                  of a completion: the words that an option with a choice takes
#   @WORDS@ @WITH_VALUE@ @WITH_PATH@   of a completion: all words; the options with a value, with a path, divided by |
#   @VERSION@ @BINDIR@ @DEFAULTS@
#   @INSTANCE@ @INSTANCE_SETTINGS@   of a template unit, made with -v instance=%i: after the name; a line that reads the
#                              settings of each instance

# ---- the help ----

FNR == 1 { file++ }

file == 1 && /^Each setting/ { in_settings = 1 }

file == 1 && !in_settings && /^  [^ ]/ {
    command[++commands] = substr($0, 3)
    words = words (words == "" ? "" : " ") $1
    next
}

file == 1 && !in_settings && /^      / && commands > 0 {
    command_help[commands] = substr($0, 7)
    next
}

file == 1 && in_settings && /^[A-Z].*:$/ {
    heading[settings + 1] = substr($0, 1, length($0) - 1)
    next
}

file == 1 && /^  SECKILL_/ {
    setting[++settings] = $1
    next
}

file == 1 && in_settings && /^  --/ {
    option[settings] = substr($0, 3)
    words = words " " $1
    if ($2 == "PATH")
        with_path = with_path (with_path == "" ? "" : "|") $1
    else
        with_value = with_value (with_value == "" ? "" : "|") $1
    next
}

file == 1 && in_settings && /^      / { setting_help[settings] = substr($0, 7) }

file == 1 { next }

# ---- the template ----

# As roff reads it: no hyphen for a minus, no escape, no request at the begin of a line.
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

# A file whose path is a setting: no secret of its own.
function is_path(i) { return setting_help[i] ~ /\[path\]/ }

function is_secret(i) { return option[i] ~ / PATH$/ || is_path(i) }

# Secrets of the receivers are for `seckill webhooks` alone.
function is_of_webhooks(i) { return setting[i] ~ /^SECKILL_WEBHOOKS/ }

function credential(i,   name) {
    name = option[i]
    sub(/^--/, "", name)
    sub(/(-file PATH| VALUE)$/, "", name)
    return "seckill." name
}

function default_of(i,   text) {
    text = setting_help[i]
    if (!match(text, /\(default [^)]*\)/))
        return ""
    return substr(text, RSTART + 9, RLENGTH - 10)
}

$0 == "@COMMANDS@" {
    for (i = 1; i <= commands; i++)
        printf ".TP\n.B %s\n%s\n", roff(command[i]), roff(command_help[i])
    next
}

$0 == "@SETTINGS@" {
    for (i = 1; i <= settings; i++) {
        split(option[i], part, " ")
        if (i in heading)
            printf ".SS %s\n", roff(heading[i])
        printf ".TP\n.B %s\n.TQ\n.BI %s \" %s\"\n%s\n", roff(setting[i]), roff(part[1]), part[2], roff(setting_help[i])
    }
    next
}

$0 == "@ASSIGNMENTS@" {
    for (i = 1; i <= settings; i++) {
        if (i in heading)
            printf "\n# ---- %s ----\n", heading[i]
        printf "\n# %s\n", setting_help[i]
        if (is_path(i))
            printf "# Or as the credential %s, a copy that only a restart makes again.\n#%s=\n", credential(i), setting[i]
        else if (is_secret(i))
            printf "# As the credential %s, not here.\n", credential(i)
        else
            printf "#%s=%s\n", setting[i], default_of(i)
    }
    next
}

$0 == "@CREDENTIALS@" {
    for (i = 1; i <= settings; i++)
        if (is_secret(i) && !is_of_webhooks(i))
            printf "LoadCredential=%s\n", credential(i)
    next
}

$0 == "@SANDBOX@" {
    while ((getline line < sandbox) > 0)
        print line
    close(sandbox)
    next
}

$0 == "@INSTANCE_SETTINGS@" {
    if (instance != "")
        printf "# Settings of this instance alone, above all SECKILL_LISTEN.\nEnvironmentFile=-%s-%s\n", defaults, instance
    next
}

$0 == "@CHOICES@" {
    for (i = 1; i <= settings; i++)
        if (match(setting_help[i], /\[[a-z]+(\|[a-z]+)+\]/)) {
            choice = substr(setting_help[i], RSTART + 1, RLENGTH - 2)
            gsub(/\|/, " ", choice)
            split(option[i], part, " ")
            printf "        %s) words=\"%s\" ;;\n", part[1], choice
        }
    next
}

{
    gsub(/@WORDS@/, words)
    gsub(/@WITH_VALUE@/, with_value)
    gsub(/@WITH_PATH@/, with_path)
    gsub(/@VERSION@/, version)
    gsub(/@BINDIR@/, bindir)
    gsub(/@DEFAULTS@/, defaults)
    gsub(/@INSTANCE@/, instance == "" ? "" : ", instance " instance)
    print
}
