package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Type is a message's type, RFC 4271 section 4.1.
type Type uint8

// Types of messages; RouteRefresh is RFC 2918's.
const (
	TypeOpen         Type = 1
	TypeUpdate       Type = 2
	TypeNotification Type = 3
	TypeKeepalive    Type = 4
	TypeRouteRefresh Type = 5
)

const (
	headerLen = 19
	// MaxLen is the longest message, header included.
	MaxLen    = 4096
	markerLen = 16
)

// ErrMessage is a message that this speaker must refuse. It is the content of
// the NOTIFICATION to send.
type ErrMessage struct {
	Code, Subcode uint8
	Data          []byte
	Text          string
}

func (e *ErrMessage) Error() string {
	return fmt.Sprintf("%s (%s)", e.Text, Reason(e.Code, e.Subcode))
}

func refuse(code, subcode uint8, data []byte, format string, args ...any) error {
	return &ErrMessage{Code: code, Subcode: subcode, Data: data, Text: fmt.Sprintf(format, args...)}
}

// Read reads one message and returns its type and body, which lies in buf and
// is gone at the next call; buf holds MaxLen bytes. A message that must be
// refused is an ErrMessage.
func Read(r io.Reader, buf []byte) (Type, []byte, error) {
	head := buf[:headerLen]
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	for _, b := range head[:markerLen] {
		if b != 0xff {
			return 0, nil, refuse(CodeHeader, 1, nil, "the marker is not all ones")
		}
	}
	length := int(binary.BigEndian.Uint16(head[markerLen:]))
	kind := Type(head[headerLen-1])
	if err := checkLength(kind, length, head); err != nil {
		return 0, nil, err
	}
	body := buf[headerLen:length]
	if _, err := io.ReadFull(r, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return kind, body, nil
}

// checkLength follows RFC 4271 section 6.1.
func checkLength(kind Type, length int, head []byte) error {
	least := map[Type]int{
		TypeOpen: 29, TypeUpdate: 23, TypeNotification: 21, TypeKeepalive: headerLen, TypeRouteRefresh: 23,
	}[kind]
	switch {
	case least == 0:
		return refuse(CodeHeader, 3, []byte{uint8(kind)}, "message type %d is unknown", kind)
	case length < least, length > MaxLen, kind == TypeKeepalive && length != headerLen:
		return refuse(CodeHeader, 2, head[markerLen:markerLen+2:markerLen+2], "a message of type %d has %d bytes", kind, length)
	}
	return nil
}

// message returns a whole message with the body.
func message(kind Type, body []byte) []byte {
	out := make([]byte, headerLen, headerLen+len(body))
	for i := range markerLen {
		out[i] = 0xff
	}
	binary.BigEndian.PutUint16(out[markerLen:], uint16(headerLen+len(body)))
	out[headerLen-1] = byte(kind)
	return append(out, body...)
}

// Keepalive returns a KEEPALIVE message.
func Keepalive() []byte { return message(TypeKeepalive, nil) }

// Family is an address family with its sub-family unicast, as the numbers of
// RFC 4760 have it.
type Family uint16

// Families.
const (
	IPv4 Family = 1
	IPv6 Family = 2
)

const unicast = 1

func (f Family) String() string {
	switch f {
	case IPv4:
		return "ipv4"
	case IPv6:
		return "ipv6"
	}
	return fmt.Sprintf("afi %d", uint16(f))
}

// Refresh returns the family that a ROUTE-REFRESH message asks to have
// announced again; ok is false for one that is none of ours.
func Refresh(body []byte) (f Family, ok bool) {
	if len(body) < 4 || body[3] != unicast {
		return 0, false
	}
	f = Family(binary.BigEndian.Uint16(body))
	// The third byte is 0 for a request; RFC 7313 has other uses for it.
	return f, (f == IPv4 || f == IPv6) && body[2] == 0
}
