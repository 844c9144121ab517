#!/usr/bin/env python3
"""generate.py VERSION TEMPLATES OUT PROGRAM...: writes a manual page and a bash completion for each program, at build time. The
options are those that the program's own --help tells; all other text is in TEMPLATES/NAME.1.in."""

import os
import re
import subprocess
import sys


class Entry:
    """An option, a positional or a command of --help."""

    def __init__(self, name, text):
        names, _, self.value = name.strip().partition(" ")
        self.names = names.split(",")
        self.value = self.value.strip()
        self.text = text


class Help:
    def __init__(self, command):
        text = subprocess.run(command + ["--help"], check=True, capture_output=True, text=True).stdout
        self.usage = re.search(r"^Usage: (.*)$", text, re.MULTILINE).group(1)
        self.what = text.partition("\n")[0]
        sections = {}
        entries = None
        for line in text.splitlines():
            if re.fullmatch(r"[A-Z][a-z]+:", line):
                entries = sections.setdefault(line[:-1], [])
            elif entries is not None and re.match(r"  \S", line):
                name, _, what = line.strip().partition("  ")
                entries.append(Entry(name, what.strip()))
            elif entries and line.startswith(" " * 20):
                entries[-1].text = (entries[-1].text + " " + line.strip()).strip()
            elif line:
                entries = None
        self.options = sections.get("Options", [])
        self.positionals = sections.get("Positionals", [])
        self.commands = sections.get("Subcommands", [])
        if not self.options:
            raise SystemExit(f"{' '.join(command)} --help tells no options:\n{text}")


# --- Manual pages (man 7 man) --------------------------------------------------------------------------------------

def groff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def tagged(entries):
    lines = []
    for one in entries:
        tag = ", ".join(f"\\fB{groff(name)}\\fR" for name in one.names)
        if one.value.startswith("["):
            tag += groff(one.value) if "=" in one.value else " " + groff(one.value)
        elif one.value:
            tag += f" \\fI{groff(one.value)}\\fR"
        lines += [".TP", tag, groff(one.text)]
    return "\n".join(lines)


def page(name, own, commands, version, template):
    def synopsis(one, words):
        takes = " ".join(["[\\fIOPTIONS\\fR]"] + [f"\\fI{groff(p.names[0])}\\fR" for p in one.positionals])
        if not one.positionals:  # of a program that runs another one
            takes += " [\\fB\\-\\-\\fR] \\fIPROGRAM\\fR [\\fIARGS\\fR...]"
        return f"\\fB{groff(words)}\\fR {takes}"

    parts = {"VERSION": version, "OPTIONS": tagged(own.options),
             "SYNOPSIS": "\n.br\n".join(synopsis(one, f"{name} {command}") for command, one in commands.items()) or synopsis(own, name),
             "COMMANDS": "\n".join(f".SS {groff(command)}\n{groff(one.what)}.\n{tagged([o for o in one.options if '--help' not in o.names])}"
                                   for command, one in commands.items())}
    with open(template) as f:
        text = f.read()
    return re.sub(r"@([A-Z]+)@", lambda found: parts[found.group(1)], text)


# --- Completion ----------------------------------------------------------------------------------------------------

def long_names(options):
    return " ".join(name for one in options for name in one.names if name.startswith("--"))


def cases(options):
    """What follows options that take a value: directories, the one word that there is, or nothing that is known."""
    lines = []
    for one in options:
        if not one.value or one.value.startswith("["):
            continue
        name = "|".join(one.names)
        if one.value == "DIR":
            lines.append(f'    {name}) COMPREPLY=($(compgen -d -- "$word")); return ;;')
        elif one.value.islower():
            lines.append(f'    {name}) COMPREPLY=($(compgen -W "{one.value}" -- "$word")); return ;;')
        else:
            lines.append(f"    {name}) return ;;")
    return lines


def completion(name, own, commands, programs=()):
    """`programs`: the commands that are programs of their own, NAME-COMMAND, whose completions are in the same file."""
    function = "_" + name.replace("-", "_")
    lines = [f"# bash completion for {name}, made from its --help.", f"{function}() {{",
             '  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= options i',
             "  COMPREPLY=()"]
    with_value = "|".join(name for one in own.options if one.value and not one.value.startswith("[") for name in one.names)
    if commands:
        lines += ["  for ((i = 1; i < COMP_CWORD; i++)); do",
                  "    case ${COMP_WORDS[i]} in " + "|".join(commands) + ") command=${COMP_WORDS[i]}; break ;; esac", "  done",
                  "  case $command:$previous in"]
        for command, one in commands.items():
            lines += [re.sub(r"^    ([^)]*)\)", lambda found: "    " + "|".join(f"{command}:{n}" for n in found.group(1).split("|")) + ")", line)
                      for line in cases(one.options)]
        lines += ["  esac"]
        if programs:
            lines += [f"  if [[ $command == @({'|'.join(programs)}) ]]; then",
                      f'    local -a words=("{name}-$command" "${{COMP_WORDS[@]:i+1}}")',
                      "    local -a COMP_WORDS=(\"${words[@]}\")", "    local COMP_CWORD=$((COMP_CWORD - i))",
                      f'    "{function}_$command"', "    return", "  fi"]
        lines += ["  case $command in"]
        lines += [f'    {command}) options="{long_names(one.options)}" ;;' for command, one in commands.items()]
        lines += [f'    *) options="{long_names(own.options)}" ;;', "  esac"]
    else:
        if not own.positionals:  # it runs a program, whose words follow
            lines += ["  for ((i = 1; i < COMP_CWORD; i++)); do", "    case ${COMP_WORDS[i]} in",
                      "      =) ((++i)) ;;", f"      {with_value}) [[ ${{COMP_WORDS[i+1]}} == = ]] || ((++i)) ;;",
                      "      --) command=$((i + 1)); break ;;", "      -*) ;;",
                      "      *) command=$i; break ;;", "    esac", "  done",
                      "  if [[ -n $command ]]; then",
                      "    if ((command < COMP_CWORD)) && declare -F _command_offset >/dev/null; then",
                      '      _command_offset "$command"', "    elif ((command < COMP_CWORD)); then",
                      '      COMPREPLY=($(compgen -f -- "$word"))', "    else",
                      '      COMPREPLY=($(compgen -c -- "$word"))', "    fi", "    return", "  fi"]
        lines += ["  case $previous in", *cases(own.options), "  esac", f'  options="{long_names(own.options)}"']
    lines += ["  if [[ $word == -* ]]; then", '    COMPREPLY=($(compgen -W "$options" -- "$word"))']
    if commands:
        lines += ["  elif [[ -z $command ]]; then", f'    COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$word"))']
    runs = [command for command, one in commands.items() if command not in programs and one.positionals[0].names != ["DIR"]]
    if runs:
        lines += [f"  elif [[ $command == @({'|'.join(runs)}) ]]; then", '    COMPREPLY=($(compgen -c -- "$word"; compgen -f -- "$word"))']
    lines += ["  else", '    COMPREPLY=($(compgen ' + ("-d" if own.positionals or commands else "-c") + ' -- "$word"))', "  fi", "}",
              f"complete -o filenames -F {function} {name}", ""]
    return "\n".join(lines)


def main():
    version, templates, out, *programs = sys.argv[1:]
    names = [os.path.basename(program) for program in programs]
    for program, name in zip(programs, names):
        own = Help([program])
        commands = {one.names[0]: Help([program, one.names[0]]) for one in own.commands}
        beside = [command for command in commands if f"{name}-{command}" in names]
        for folder, file, text in (("man/man1", f"{name}.1", page(name, own, commands, version, os.path.join(templates, f"{name}.1.in"))),
                                   ("bash-completion/completions", name,
                                    "\n".join([completion(f"{name}-{command}", commands[command], {}) for command in beside] +
                                              [completion(name, own, commands, beside)]))):
            os.makedirs(os.path.join(out, folder), exist_ok=True)
            with open(os.path.join(out, folder, file), "w") as f:
                f.write(text)


if __name__ == "__main__":
    main()
