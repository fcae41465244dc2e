package wire

import (
	"fmt"
	"unicode/utf8"
)

// Codes of a NOTIFICATION, RFC 4271 section 4.5.
const (
	CodeHeader uint8 = 1
	CodeOpen   uint8 = 2
	CodeUpdate uint8 = 3
	CodeHold   uint8 = 4
	CodeFSM    uint8 = 5
	CodeCease  uint8 = 6
)

// Subcodes of a Cease, RFC 4486, and RFC 9384's for BFD.
const (
	CeaseShutdown     uint8 = 2
	CeaseDeconfigured uint8 = 3
	CeaseReset        uint8 = 4
	CeaseCollision    uint8 = 7
	CeaseBFDDown      uint8 = 10
)

var codes = map[uint8]string{
	CodeHeader: "message header error", CodeOpen: "OPEN error", CodeUpdate: "UPDATE error",
	CodeHold: "hold timer expired", CodeFSM: "finite state machine error", CodeCease: "cease",
}

var subcodes = map[[2]uint8]string{
	{CodeHeader, 1}: "connection not synchronized", {CodeHeader, 2}: "bad message length", {CodeHeader, 3}: "bad message type",
	{CodeOpen, 1}: "unsupported version", {CodeOpen, 2}: "bad peer AS", {CodeOpen, 3}: "bad BGP identifier",
	{CodeOpen, 4}: "unsupported optional parameter", {CodeOpen, 5}: "authentication failure",
	{CodeOpen, 6}: "unacceptable hold time", {CodeOpen, 7}: "unsupported capability",
	{CodeCease, 1}: "maximum number of prefixes reached", {CodeCease, CeaseShutdown}: "administrative shutdown",
	{CodeCease, CeaseDeconfigured}: "peer de-configured", {CodeCease, CeaseReset}: "administrative reset",
	{CodeCease, 5}: "connection rejected", {CodeCease, 6}: "other configuration change",
	{CodeCease, CeaseCollision}: "connection collision", {CodeCease, 8}: "out of resources", {CodeCease, 9}: "hard reset",
	{CodeCease, CeaseBFDDown}: "BFD down",
}

// Reason is what a NOTIFICATION says, in words.
func Reason(code, subcode uint8) string {
	text, ok := codes[code]
	if !ok {
		text = fmt.Sprintf("code %d", code)
	}
	if sub, ok := subcodes[[2]uint8{code, subcode}]; ok {
		return text + ": " + sub
	}
	if subcode != 0 {
		text += fmt.Sprintf(", subcode %d", subcode)
	}
	return text
}

// Notification returns a NOTIFICATION message.
func Notification(code, subcode uint8, data []byte) []byte {
	return message(TypeNotification, append([]byte{code, subcode}, data[:min(len(data), MaxLen-headerLen-2)]...))
}

// Notified is a NOTIFICATION of the peer as an error.
type Notified struct {
	Code, Subcode uint8
	// Text is what an administrator of the peer said (RFC 9003), if anything.
	Text string
}

func (n *Notified) Error() string {
	s := "the peer closed the session: " + Reason(n.Code, n.Subcode)
	if n.Text != "" {
		s += fmt.Sprintf(" (%q)", n.Text)
	}
	return s
}

// maxText is the longest text of RFC 9003, in bytes.
const maxText = 255

// ParseNotification reads the body of a NOTIFICATION.
func ParseNotification(body []byte) *Notified {
	n := &Notified{}
	if len(body) < 2 {
		return n
	}
	n.Code, n.Subcode = body[0], body[1]
	if n.Code != CodeCease || n.Subcode != CeaseShutdown && n.Subcode != CeaseReset || len(body) < 3 {
		return n
	}
	size := min(int(body[2]), maxText)
	if text := body[3:]; size <= len(text) && utf8.Valid(text[:size]) {
		n.Text = string(text[:size])
	}
	return n
}
