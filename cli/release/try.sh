#!/bin/sh
# The first commands of README with an installed program, in an empty folder: sh cli/release/try.sh PROGRAM
set -eu
verdigris=$1
cd "$(mktemp -d)"
$verdigris demo > demo.txt
grep -q '^  marked ' demo.txt
$verdigris key new my.key
$verdigris generate "The captain" --key my.key --max-tokens 400 > tale.txt
$verdigris detect tale.txt --key my.key
echo '{"type": "object", "additionalProperties": false, "required": ["age"],
  "properties": {"age": {"type": "integer", "minimum": 16, "maximum": 99}}}' > person.schema.json
$verdigris generate "The captain: " --json-schema person.schema.json
