// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"strings"
)

// Script is a list of commands and files. The package comment and Commands describe the commands.
type Script struct {
	Name  string // for messages: file:line
	Lines []Line
	Files []File
}

// Line is a command.
type Line struct {
	Number int // from 1; 0: not from a file
	// Mode is the expected outcome of the command.
	Mode  Mode
	Words []string

	do action
}

// Mode is the expected outcome of a command.
type Mode string

// The modes, in the form written before a command.
const (
	MustWork Mode = ""
	MustFail Mode = "!"
	MayFail  Mode = "?"
)

// File is a named part at the end of a script, for "apply NAME.yaml".
type File struct {
	Name string
	Data string
}

// ParseScript parses a script. The error joins the errors of all invalid lines, which begin with
// name:line.
func ParseScript(name string, data []byte) (*Script, error) {
	s := &Script{Name: name}
	commands, files := splitFiles(string(data))
	s.Files = files
	var errs []error
	for i, text := range strings.Split(commands, "\n") {
		line, err := parseLine(text)
		line.Number = i + 1
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, i+1, err))
		case len(line.Words) > 0:
			s.Lines = append(s.Lines, line)
		}
	}
	return s, errors.Join(errs...)
}

// splitFiles splits off the files. Each file follows a line "-- NAME --".
func splitFiles(text string) (commands string, files []File) {
	at := &commands
	for line := range strings.Lines(text) {
		if name, ok := marker(line); ok {
			files = append(files, File{Name: name})
			at = &files[len(files)-1].Data
			continue
		}
		*at += line
	}
	return commands, files
}

func marker(line string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "-- ")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(rest, " --")
	name = strings.TrimSpace(name)
	return name, ok && name != ""
}

// parseLine parses a line. A comment or an empty line has no words.
func parseLine(text string) (Line, error) {
	words, err := splitWords(text)
	if err != nil || len(words) == 0 {
		return Line{}, err
	}
	line := Line{Words: words}
	if m := Mode(words[0]); m == MustFail || m == MayFail {
		line.Mode, line.Words = m, words[1:]
	}
	if len(line.Words) == 0 {
		return Line{}, fmt.Errorf("%q stands alone", words[0])
	}
	line.do, err = compile(line.Words)
	return line, err
}

// command makes a line from valid words, for a generator.
func command(words ...string) Line {
	line, err := parseLine(strings.Join(words, " "))
	if err != nil {
		line.do = func(*player) error { return err }
	}
	return line
}

var errOpenQuote = errors.New("a quote is not closed")

// splitWords splits a line at blanks. Within single quotes, blanks and # are ordinary characters,
// and two single quotes stand for a single quote.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	inside, quoted := false, false // within a word; within quotes
	flush := func() {
		if inside {
			words = append(words, word.String())
			word.Reset()
			inside = false
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\'' && i+1 < len(text) && text[i+1] == '\'':
			word.WriteByte(c)
			i++
		case c == '\'':
			quoted, inside = !quoted, true
		case quoted:
			word.WriteByte(c)
		case c == ' ' || c == '\t' || c == '\r':
			flush()
		case c == '#' && !inside:
			return words, nil
		default:
			word.WriteByte(c)
			inside = true
		}
	}
	if quoted {
		return nil, errOpenQuote
	}
	flush()
	return words, nil
}

// String returns the line in the form that ParseScript reads.
func (l Line) String() string {
	var b strings.Builder
	if l.Mode != MustWork {
		b.WriteString(string(l.Mode) + " ")
	}
	for i, w := range l.Words {
		if i > 0 {
			b.WriteByte(' ')
		}
		// A word in the form of a mode needs quotes only at the beginning.
		special := i == 0 && l.Mode == MustWork && (w == string(MustFail) || w == string(MayFail))
		if special || w == "" || strings.ContainsAny(w, " \t\r'#") {
			w = "'" + strings.ReplaceAll(w, "'", "''") + "'"
		}
		b.WriteString(w)
	}
	return b.String()
}

// String returns the script in the form that ParseScript reads, without comments.
func (s *Script) String() string {
	var b strings.Builder
	for _, l := range s.Lines {
		b.WriteString(l.String() + "\n")
	}
	for _, f := range s.Files {
		b.WriteString("-- " + f.Name + " --\n" + f.Data)
		if f.Data != "" && !strings.HasSuffix(f.Data, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// file returns a file of the script.
func (s *Script) file(name string) (string, bool) {
	for _, f := range s.Files {
		if f.Name == name {
			return f.Data, true
		}
	}
	return "", false
}
