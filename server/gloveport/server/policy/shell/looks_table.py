"""Commands that only look, and those that change just the files they name: as data for `looks.py`.

Purpose: for each program the options that are known to start, load and write nothing beside, and what its operands are.
Invariant: an allowlist; a program, sub-command, option or operand form that is missing here is asked about.
Must never: name a program that runs, loads or obeys a file of the workspace, whatever its options.

A line: `program [sub-command] | options | operands`. An option `-a` stands alone, `-a=n` takes a number, `-a=t` a text,
`-a=p` a path that is read, `-a=f` a format of git's log, `-a=r` one of its refs, `--a?` may carry `=text` and `--a?f`
such a format, `-#` is a number with a dash, `!-a`: one of those marked must be there. Operands: `none`, `text`, `paths`
(read), `plain` (paths, no word with an `@` before it), `one` (at most one path), `first` (a text, then paths), `revs`
(of a repository, or paths), `listed` (texts, with `--list` alone), `config` (a name and a pattern, none with `--list`),
`format` (of `printf`, then texts), `dashless` (texts without a dash), `find`, `sed`, `awk`, `jq`, `date`; for what
writes: `files`, `mode` (a word, then files), `copy`, `move`, `remove`; for wrappers: `args` (what follows is a command
of its own), `1args` (after one word). A `*` before them: the program takes its options wherever they stand. Without it
they end for the program where its first operand stands, and one behind it is asked about; so it is where an option must
be there, or `--list`.
"""

from typing import Final

LOOKS_VERSION: Final = 3

LOOKS: Final = """
ls | -1 -a -A -l -h -R -r -t -S -d -F -p -i -s -n -o -g -G -L -H -X -U -v -c -u -k -q -Q -x -C -m --all --almost-all
   --color? --full-time --group-directories-first --human-readable --si --time-style=t --sort=t --time=t --recursive
   --reverse --size --inode --directory --classify --no-group --ignore=t -I=t -w=n | *paths
cat | -n -A -b -e -E -s -t -T -v --number --number-nonblank --show-all --squeeze-blank | *paths
tac | | *paths
nl | -b=t -n=t -w=n -s=t -v=n | *paths
head | -n=n -c=n -q -v -# --lines=n --bytes=n --quiet | *paths
tail | -n=n -c=n -q -v -f -F -# --lines=n --bytes=n --quiet | *paths
wc | -l -w -c -m -L --lines --words --bytes --chars --max-line-length | *paths
stat | -c=t --format=t -L -f -t --printf=t | *paths
file | -b -i -L -h -k --brief --mime --mime-type --mime-encoding | *paths
du | -s -h -a -c -d=n -k -m -b -x -S -0 --max-depth=n --summarize --human-readable --apparent-size --all --total
   --exclude=t | *paths
df | -h -H -T -i -k -m -a -l -P --human-readable --total | *paths
realpath | -e -m -s -q -L -P --relative-to=p --relative-base=p | *paths
readlink | -f -e -m -n -q -s -v | *paths
basename | -a -s=t --suffix=t | text
dirname | -z | text
pwd | -L -P | none
echo | -n -e -E | text
printf | | format
true | | text
false | | text
test | -f -d -e -r -s -w -x -L -h -n -z | dashless
env | -0 --null | none
date | -u -R -I --utc --iso-8601? --rfc-3339=t -d=t --date=t -r=p | *date
uname | -a -s -n -r -v -m -p -o -i --all --kernel-release --machine | *none
whoami | | *none
id | -u -g -G -n -r | *text
groups | | text
arch | | *none
nproc | --all | *none
uptime | -p -s | *none
free | -h -m -g -k -b -t | *none
lscpu | -J | *none
hostname | -s -f | *none
locale | -a | *none
printenv | | text
tty | -s | *none
ps | -a -A -e -f -F -l -x -u -o=t -p=n -C=t --forest --no-headers --sort=t | text
sleep | | text
seq | -w -s=t -f=t | text
which | -a | text
type | -a -t -p -P | text
command | !-v !-V -p | text
sort | -r -n -u -f -h -b -d -g -i -M -V -s -z -c -C -m -k=t -t=t --reverse --unique --numeric-sort
   --human-numeric-sort --version-sort --key=t --field-separator=t --ignore-case --stable | *paths
uniq | -c -d -u -i -D -z -f=n -s=n -w=n --count --repeated --unique --ignore-case | *one
cut | -d=t -f=t -c=t -b=t -s -n -z --delimiter=t --fields=t --characters=t --complement --output-delimiter=t | *paths
tr | -d -s -c -C -t --delete --squeeze-repeats --complement | text
paste | -d=t -s -z --delimiters=t --serial | *paths
join | -1=n -2=n -a=n -e=t -i -j=n -o=t -t=t -v=n | *paths
comm | -1 -2 -3 -i --check-order --nocheck-order --output-delimiter=t | *paths
column | -t -s=t -c=n -x -n -e -N=t -J | *paths
fold | -w=n -s -b | *paths
fmt | -w=n -s -u | *paths
expand | -t=t -i | *paths
unexpand | -t=t -a | *paths
rev | | *paths
diff | -u -U=n -r -q -s -y -w -b -B -i -N -a -c -C=n -e -n -x=t -W=n -t -d -p --brief --unified? --context? --recursive
   --side-by-side --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --new-file --text
   --color? --exclude=t --width=n --suppress-common-lines --strip-trailing-cr --label=t --stat | *paths
cmp | -s -l -b -n=n -i=n --silent --quiet --verbose --print-bytes | *paths
md5sum | -b -t --tag | *paths
sha1sum | -b -t --tag | *paths
sha256sum | -b -t --tag | *paths
sha512sum | -b -t --tag | *paths
b2sum | -b -t --tag | *paths
cksum | -a=t --algorithm=t | *paths
base64 | -d -w=n -i --decode --wrap=n | *one
od | -A=t -t=t -N=n -j=n -w=n -v -c -x -a -d -o -b | *paths
hexdump | -C -n=n -s=n -v -c -x | *paths
strings | -a -n=n -t=t -e=t | *plain
grep | -n -i -v -c -l -L -w -x -o -q -s -h -H -r -R -E -F -P -G -a -I -b -z -e=t -m=n -A=n -B=n -C=n -d=t -# -f=p
   --include=t --exclude=t --exclude-dir=t --color? --recursive --line-number --ignore-case --invert-match --count
   --files-with-matches --files-without-match --word-regexp --only-matching --quiet --no-messages --no-filename
   --with-filename --extended-regexp --fixed-strings --perl-regexp --text --max-count=n --after-context=n
   --before-context=n --context=n --regexp=t --line-buffered --null --binary-files=t --byte-offset | *first
egrep | -n -i -v -c -l -w -o -q -s -h -H -r -e=t -m=n -A=n -B=n -C=n --include=t --exclude=t --color? | *first
fgrep | -n -i -v -c -l -w -o -q -s -h -H -r -e=t -m=n -A=n -B=n -C=n --include=t --exclude=t --color? | *first
rg | -n -N -i -s -S -v -c -l -w -x -o -q -u -F -P -U -a -g=t -t=t -T=t -e=t -m=n -A=n -B=n -C=n -d=n -j=n -M=n -H -I
   -p -0 -L -r=t --hidden --no-ignore --no-ignore-vcs --files --files-with-matches --files-without-match --count
   --count-matches --glob=t --iglob=t --type=t --type-not=t --type-list --json --stats --sort=t --sortr=t --trim
   --no-heading --heading --color=t --colors=t --column --line-number --no-line-number --ignore-case --smart-case
   --case-sensitive --fixed-strings --word-regexp --only-matching --replace=t --max-count=n --max-depth=n
   --max-columns=n --context=n --after-context=n --before-context=n --multiline --multiline-dotall --pcre2 --quiet
   --regexp=t --no-filename --with-filename --invert-match --vimgrep --no-config --follow --text --null --no-messages
   --passthru --line-regexp --pretty --threads=n --no-unicode --debug | *first
jq | -r -c -n -s -e -S -M -C -j -a -R --raw-output --compact-output --null-input --slurp --exit-status --sort-keys
   --raw-input --tab --indent=n --monochrome-output --color-output --join-output --ascii-output | *jq
find | | find
sed | -n -E -r -s -z -u -e=s --quiet --silent --regexp-extended --expression=s --null-data --posix --debug | *sed
awk | -F=t --field-separator=t | awk
gawk | -F=t --field-separator=t | awk
mawk | -F=t | awk
unzip | !-l !-v !-Z1 -q | one
zipinfo | -1 -s -m -l -h -t | one
gofmt | !-l -e -s | paths
shellcheck | !--norc -s=t -e=t -f=t -S=t -a | paths
mkdir | -p -v -m=t --parents --verbose --mode=t | *files
touch | -a -c -m --no-create | *files
tee | -a --append | *files
cp | -p -v -n -f -u -a -r -R -L -P -d -T --preserve? --verbose --no-clobber --update --archive --recursive | *copy
ln | -s -f -v -n -r -T --symbolic --force --verbose --relative | *copy
install | -v -p -D -m=t -o=t -g=t --mode=t | *copy
mv | -v -n -f -u -T --verbose --no-clobber --force --update | *move
rm | -r -R -f -v -d --recursive --force --verbose --dir | *remove
rmdir | -p -v | *remove
unlink | | *remove
shred | -u -z -v -f -n=n | *remove
truncate | -s=t -c --size=t | *files
chmod | -R -v -c -f | *mode
chown | -R -v -c -f -h | *mode
git status | -s -b -u? --short --branch --porcelain? --long --untracked-files? --ignored? --show-stash -uno -unormal
   -uall -z --no-renames --ahead-behind | *revs
git log | -p -u -n=n -# -U=n -L=t -S=t -G=t -i -E -F -P -w -b -M -C -z -g --oneline --graph --all --stat? --shortstat
   --numstat --summary --name-only --name-status --patch --no-patch -s --decorate? --no-decorate --pretty?f --format?f
   --abbrev-commit --abbrev? --since=t --until=t --after=t --before=t --author=t --committer=t --grep=t
   --max-count=n --skip=n --follow --merges --no-merges --first-parent --reverse --date=t --date-order --topo-order
   --diff-filter=t --branches? --tags? --remotes? --cherry-pick --left-right --no-color --color? --word-diff?
   --pickaxe-regex --pickaxe-all --all-match --invert-grep --relative-date --no-ext-diff --no-textconv --unified=n
   --dirstat? --walk-reflogs --source --cc --full-history --simplify-merges --ignore-all-space --find-renames? | *revs
git diff | -p -u -U=n -M -C -b -w -s -z -R -a -i --cached --staged --stat? --shortstat --numstat --summary --name-only
   --name-status --check --no-color --color? --word-diff? --color-words? --diff-filter=t --ignore-all-space
   --ignore-space-change --ignore-blank-lines --ignore-space-at-eol --minimal --patience --histogram --unified=n
   --no-ext-diff --no-textconv --exit-code --quiet --merge-base --find-renames? --find-copies? --no-renames --raw
   --text --relative? --function-context -W --compact-summary --abbrev? --full-index --no-prefix --dirstat? | *revs
git show | -p -u -U=n -s -q -M -C -b -w -z --stat? --shortstat --numstat --summary --name-only --name-status
   --pretty?f --format?f --oneline --no-patch --patch --abbrev-commit --no-color --color? --word-diff? --date=t
   --no-ext-diff --no-textconv --unified=n --decorate? --ignore-all-space --diff-filter=t --first-parent | *revs
git blame | -L=t -w -M -C -s -e -l -t -f -n -c -p --porcelain --line-porcelain --date=t --ignore-rev=t --show-email
   --show-name --show-number --root --abbrev? | *revs
git annotate | -L=t | *revs
git shortlog | -s -n -e -c --summary --numbered --email --since=t --until=t --no-merges --group=f | *revs
git rev-parse | --abbrev-ref? --short? --show-toplevel --show-prefix --show-cdup --git-dir --is-inside-work-tree
   --verify -q --quiet --symbolic --symbolic-full-name --all --branches --tags --absolute-git-dir --git-common-dir
   --is-bare-repository --show-object-format | *revs
git rev-list | -n=n -# --count --all --max-count=n --since=t --until=t --no-merges --merges --first-parent --reverse
   --left-right --oneline --objects --author=t --branches? --tags? | *revs
git ls-files | -c -d -m -o -i -s -u -t -v -z --cached --deleted --modified --others --ignored --stage --exclude-standard
   --exclude=t --directory --full-name --error-unmatch --eol | *revs
git ls-tree | -r -d -t -l -z --name-only --name-status --long --full-name --full-tree --abbrev? | *revs
git cat-file | -t -s -e -p | *revs
git describe | --tags --all --always --dirty? --long --abbrev? --contains --match=t --exact-match --first-parent | *revs
git merge-base | -a --all --is-ancestor --fork-point --octopus | *revs
git name-rev | --tags --name-only --always | *revs
git show-ref | --heads --tags --head -d -s --hash? --verify -q --abbrev? | *revs
git for-each-ref | --sort=r --format=r --count=n --contains=t --merged=t --no-merged=t --points-at=t | *revs
git show-branch | -a -r --list --all --remotes --current | revs
git branch | -a -r -v -vv --list --all --remotes --show-current --verbose --no-color --color? --sort=r --format=r
   --merged? --no-merged? --contains=t --points-at=t | listed
git tag | -l -n -n=n --list --sort=r --format=r --contains=t --merged? --points-at=t | listed
git stash list | --oneline -p --stat? | none
git stash show | -p --stat? --name-only --include-untracked | revs
git remote | -v --verbose | none
git remote get-url | --all --push | *revs
git worktree list | --porcelain -v | none
git config | !--get !--get-all !--list !-l !--get-regexp --show-origin --show-scope --name-only --local -z --bool --int
   | config
git diff-tree | -r -p -m -s -z --no-commit-id --name-only --name-status --stat? --root --numstat | *revs
git diff-index | --cached -p -r --name-only --name-status --quiet --stat? | *revs
git diff-files | -p --name-only --name-status --quiet --stat? | *revs
git grep | -n -i -v -c -l -L -w -o -q -h -H -E -F -P -G -e=t -A=n -B=n -C=n -m=n -p -W --cached --untracked --count
   --line-number --ignore-case --files-with-matches --name-only --word-regexp --heading --break --no-color --color?
   --all-match --max-depth=n --no-index --recurse-submodules --show-function | first
git check-ignore | -v -n -q --verbose --no-index --quiet | *paths
git check-attr | -a --all | *text
git count-objects | -v -H | none
git fsck | --full --no-progress --connectivity-only --dangling | *none
git reflog | -n=n -# --oneline --date=t --all | *none
git version | --build-options | none
dpkg | !-l !-s !-L !-S !--list !--status | text
dpkg-query | !-W !-l !-s !-L -f=t | text
"""
"""The lines; a line that begins with spaces goes on with the one before."""

VERSION_OF: Final = """
    python python3 node ruby perl gcc g++ cc clang clang++ make cmake ninja git docker podman bash dash
    jq rg fd grep sed tar gzip java javac tsc deno sqlite3 gdb strace shellcheck shfmt
    ld as ar nm objdump readelf ffmpeg pandoc hugo nginx lua luajit ghc ocaml rustfmt
"""
"""Programs that may be asked for their version: `--version` as the only word. Those that obey a file of the home folder
before they answer are not among them."""

WRAPPERS: Final = """
env | -i --ignore-environment -u=t --unset=t | args
timeout | -k=t -s=t -v --preserve-status --foreground --kill-after=t --signal=t --verbose | 1args
nice | -n=n -# --adjustment=n | args
ionice | -c=n -n=n -t | args
chrt | -b -i -o | 1args
nohup | | args
setsid | -w -f -c --wait --fork | args
stdbuf | -i=t -o=t -e=t --input=t --output=t --error=t | args
time | -p | args
command | -p | args
builtin | | args
exec | -c -l | args
"""
"""Programs that start the command behind them and do nothing else; what may stand before it is an allowlist too."""

HARMLESS_VARIABLES: Final = """
    NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI COLUMNS LINES PY_COLORS RUST_BACKTRACE
"""
"""Variables that choose how something looks, never what is loaded or run."""

LOCALE_VARIABLES: Final = "LC_ALL LC_CTYPE LC_NUMERIC LC_TIME LC_COLLATE LC_MESSAGES LANG"
"""Variables that are harmless with the plain name of a locale; with another value they choose a file to load."""

SHELLS: Final = "bash sh dash"
"""Shells whose text is understood; others have other grammars."""

SHELL_OPTIONS: Final = "-e -u -x -o=t -f --norc --noprofile"
"""Options of a shell before its text: no rc files, nothing that runs beside the text."""

BUILTINS: Final = "echo printf test true false pwd type command cd :"
"""Programs that every one of these shells has inside; no file is looked for, unless a program starts them."""

GIT_FORMATS: Final = """
    oneline short medium full fuller reference email mboxrd raw author committer
"""
"""Formats and groups that git knows by a name; another name is one that settings gave to any format."""

OBEY_FOLDER: Final = "git"
"""Programs that run what settings in the folder name; those of the workspace's root are looked at, others are not."""

CONFIGURES: Final = "config"
"""The sub-command of git that chooses what git runs later: behind it in a line git is asked about."""

WRITERS: Final = """
cp | -t --target-directory | -S --suffix | copy
ln | -t --target-directory | -S --suffix | copy
install | -t --target-directory | -S --suffix -m -o -g --mode --owner --group | copy
mv | -t --target-directory | -S --suffix | move
rsync | | -e -f -B -M -T --exclude --include --rsh --files-from | send
scp | | -c -F -i -J -l -o -P -S | send
dd | of= | |
touch | | -d -r -t --date --reference --time | files
mkdir | | -m --mode | files
truncate | | -r -s --reference --size | files
chmod | | | mode
chown | | --from | mode
sort | -o --output | -k -t -S -T --key --field-separator --buffer-size --temporary-directory |
curl | -o --output --output-dir -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --hsts --alt-svc
   --etag-save --libcurl | -A -b -C -d -e -E -F -H -K -m -P -Q -r -t -T -u -U -w -x -X -y -Y -z |
wget | -O --output-document -P --directory-prefix -o --output-file -a --append-output
   | -A -B -D -e -i -I -l -Q -R -t -T -U -w -X |
unzip | -d | -P |
patch | -o --output -r --reject-file -d --directory | -p -i -D -B -F -g -V -Y -z --strip --input | first
sponge | | | files
sed | | -e -f -l --expression --file --line-length | in-place
perl | | -e -E -F -I -m -M | in-place
git | --output --output-directory | |
tar | -C --directory --one-top-level | -b -f -F -g -H -I -K -L -N -T -V -X --file --exclude --files-from | tar
bsdtar | -C --directory | -b -f -I -T -X --file --exclude --files-from | tar
"""
"""What programs that are asked about write at least: options whose value is a path that is written, options that take
another value, and what their operands are. `first`: the first one is written, `mode`: all behind a word, or behind an
option in its place, `in-place`: all behind the script if there is `-i`, `send`: a copy from or to another machine,
`tar`: it depends on what it is told to do."""

WITH_APPLETS: Final = "busybox toybox"
"""Programs that are the program that their first word names."""
