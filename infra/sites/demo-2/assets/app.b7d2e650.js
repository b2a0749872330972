document.body.append('This is the script of version 2.')
