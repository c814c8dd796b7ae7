# A newcomer's first ten minutes; docs/record.py runs these lines and writes first_ten_minutes.cast.
mkdir notes
printf '# Passport\n\nPassport renewal takes six weeks. Bring two photographs.\n' > notes/passport.md
printf 'Prune the apple tree in February, before the buds open.\n' > notes/garden.txt
printf '# Barn owl\n\nThe barn owl hunts at dusk, by ear alone.\n' > notes/owl.md
quoth add notes.quoth notes
quoth search notes.quoth "passport renewal" -k 1
quoth search notes.quoth "night birds" -k 1
quoth search notes.quoth "apple tree" -k 1 --with lexical --explain
quoth ask notes.quoth "How long does it take to renew a passport?"
quoth ask notes.quoth "Who won the world cup in 1954?"
printf 'Water the beans every evening.\n' >> notes/garden.txt
quoth add notes.quoth notes
quoth search notes.quoth "beans" -k 1 --where 'format == "txt"'
quoth remove notes.quoth notes/owl.md
quoth export notes.quoth notes.jsonl
quoth import copy.quoth notes.jsonl
quoth verify copy.quoth
