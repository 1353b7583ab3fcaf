// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"strings"
)

// Script is a node's story: commands, one per line, and files. Package comment and
// Commands say which there are.
type Script struct {
	Name  string // for messages: file:line
	Lines []Line
	Files []File
}

// Line is one command.
type Line struct {
	Number int // from 1; 0: not from a file
	// Mode says what is expected of the command.
	Mode  Mode
	Words []string

	do action
}

// Mode says what is expected of a command.
type Mode string

// The modes, as they are written before a command.
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

// ParseScript reads a script. Every line that cannot be understood is an error that begins with
// name:line, and all of them are joined.
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

// splitFiles cuts off the files, each of which follows a line "-- NAME --".
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

// parseLine reads one line; a comment or an empty one has no words.
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

// command makes a line that is known to be right; a generator uses it.
func command(words ...string) Line {
	line, err := parseLine(strings.Join(words, " "))
	if err != nil {
		line.do = func(*player) error { return err }
	}
	return line
}

var errOpenQuote = errors.New("a quote is not closed")

// splitWords cuts a line at blanks. In single quotes blanks and # are as any
// other character, and two single quotes are one.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	inside, quoted := false, false // a word; quotes
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

// String is the line as ParseScript reads it.
func (l Line) String() string {
	var b strings.Builder
	if l.Mode != MustWork {
		b.WriteString(string(l.Mode) + " ")
	}
	for i, w := range l.Words {
		if i > 0 {
			b.WriteByte(' ')
		}
		// What would be taken for a mode is one only at the beginning.
		special := i == 0 && l.Mode == MustWork && (w == string(MustFail) || w == string(MayFail))
		if special || w == "" || strings.ContainsAny(w, " \t\r'#") {
			w = "'" + strings.ReplaceAll(w, "'", "''") + "'"
		}
		b.WriteString(w)
	}
	return b.String()
}

// String is the script as ParseScript reads it, without comments.
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
