# Writes one file as a C string constant. usage: cmake -DIN=FILE -DOUT=x.c -DNAME=symbol -P embed_text.cmake
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${OUT}" "extern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0};\n")
